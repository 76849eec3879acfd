"""vLLM's interface for programs without a server: `from lamina.compat.vllm import LLM, SamplingParams`.

>>> llm = LLM(model="model.gguf")
>>> llm.generate(["Once upon a time"], SamplingParams(temperature=0.8, max_tokens=16))[0].outputs[0].text

Arguments have its names and defaults, answers its classes. An argument that there is no such thing for is refused by name.
"""

from .llm import LLM
from .outputs import (
    BeamSearchOutput,
    BeamSearchSequence,
    CompletionOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    Logprob,
    RequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)
from .params import (
    BeamSearchParams,
    GuidedDecodingParams,
    LoRARequest,
    SamplingParams,
    StructuredOutputsParams,
    TextPrompt,
    TokensPrompt,
)

__all__ = [
    "LLM",
    "BeamSearchOutput",
    "BeamSearchParams",
    "BeamSearchSequence",
    "CompletionOutput",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "GuidedDecodingParams",
    "LoRARequest",
    "Logprob",
    "RequestOutput",
    "SamplingParams",
    "ScoringOutput",
    "ScoringRequestOutput",
    "StructuredOutputsParams",
    "TextPrompt",
    "TokensPrompt",
]
