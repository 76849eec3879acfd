"""llama-cpp-python's interface: `from lamina.compat.llama_cpp import Llama` in the place of `from llama_cpp import Llama`.

>>> llm = Llama(model_path="model.gguf", n_ctx=2048)
>>> llm("Once upon a time", max_tokens=16)["choices"][0]["text"]

Arguments have its names and defaults, answers its dicts. An argument that there is no such thing for is refused by name.
"""

from .llama import LLAMA_DEFAULT_SEED, Llama
from .parts import (
    LlamaCache,
    LlamaDiskCache,
    LlamaGrammar,
    LlamaPromptLookupDecoding,
    LlamaRAMCache,
    LlamaState,
    LlamaTokenizer,
    LogitsProcessorList,
    StoppingCriteriaList,
)

__all__ = [
    "LLAMA_DEFAULT_SEED",
    "Llama",
    "LlamaCache",
    "LlamaDiskCache",
    "LlamaGrammar",
    "LlamaPromptLookupDecoding",
    "LlamaRAMCache",
    "LlamaState",
    "LlamaTokenizer",
    "LogitsProcessorList",
    "StoppingCriteriaList",
]
