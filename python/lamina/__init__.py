"""Large language models on the machine you have.

Examples:
    >>> import lamina
    >>> llm = lamina.LLM("model.gguf")
    >>> print(llm.generate("Once upon a time", max_tokens=64).text)

`LLM` loads a GGUF file or a Hugging Face folder and answers requests; `SamplingParams` holds the options of a request;
`Server` answers over HTTP, for clients of OpenAI, Anthropic, llama-server and Ollama.
Every error is a `LaminaError`.
"""

from . import interrupt  # isort: skip  (before anything that takes time to import)

interrupt.exit_early()

from . import chat
from ._lamina import __version__
from .async_stream import AsyncStream
from .divergence import Divergence, TokenDivergence
from .errors import (
    DeviceLostError,
    FormatError,
    InvalidRequestError,
    LaminaError,
    ModelError,
    OutOfMemoryError,
    UnsupportedError,
)
from .grammar import Grammar
from .llm import LLM
from .matcher import Matcher
from .outputs import (
    Beam,
    Completion,
    HearingInfo,
    ImageUse,
    ModelInfo,
    Perplexity,
    Piece,
    Score,
    SoundUse,
    Speculation,
    Timings,
    TokenLogprob,
    Usage,
    VisionInfo,
)
from .planning import Plan, plan
from .policy import Policy
from .sampling import SamplingParams
from .server import Server
from .state import State
from .stream import Stream
from .trace import Trace

__all__ = [
    "LLM",
    "AsyncStream",
    "Beam",
    "Completion",
    "DeviceLostError",
    "Divergence",
    "FormatError",
    "Grammar",
    "HearingInfo",
    "ImageUse",
    "InvalidRequestError",
    "LaminaError",
    "Matcher",
    "ModelError",
    "ModelInfo",
    "OutOfMemoryError",
    "Perplexity",
    "Piece",
    "Plan",
    "Policy",
    "SamplingParams",
    "Score",
    "Server",
    "SoundUse",
    "Speculation",
    "State",
    "Stream",
    "Timings",
    "TokenDivergence",
    "TokenLogprob",
    "Trace",
    "UnsupportedError",
    "Usage",
    "VisionInfo",
    "__version__",
    "chat",
    "plan",
]
