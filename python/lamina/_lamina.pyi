from os import PathLike
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ChatParser",
    "Grammar",
    "Matcher",
    "Model",
    "Server",
    "Stream",
    "__version__",
    "chat_format_of",
    "chat_formats",
    "check_options",
    "cli_main",
    "plan",
    "sampling_params",
]

__version__: str

_Prompt = Union[str, NDArray[np.uint32]]
_Logprob = Tuple[float, List[Tuple[int, float]]]
_End = Tuple[str, Union[int, Tuple[int], str, None]]
_Scored = Tuple[int, float, List[Tuple[int, float]]]
_Times = Tuple[float, float, float, int, float, int]
_Sampler = Tuple[int, int, int, Optional[float]]
_Drafted = Optional[Tuple[int, int, int, str]]
_Answer = Tuple[str, List[int], _End, Optional[bool], List[_Logprob], List[_Scored], Tuple[int, int, int], _Times, _Drafted, _Sampler]
_PieceRow = Tuple[
    int, str, Optional[int], bool, Optional[float], List[Tuple[int, float]], Optional[str], Optional[bool]
]
_DeltaRow = Tuple[
    Optional[str], Optional[str], Optional[int], Optional[str], Optional[str], Optional[str], Optional[bool]
]

def sampling_params() -> List[Tuple[str, List[str], str, Any, Tuple[float, float], str]]: ...
def cli_main(args: List[str]) -> int: ...
def plan(
    path: Union[str, PathLike[str]],
    *,
    device: str,
    context: Optional[int],
    kv_dtype: str,
    dtype: str,
    threads: Optional[int],
    loras: List[Tuple[str, str]],
    memory: Optional[str],
    device_memory: Optional[str],
    offload: str,
    panel_cache: Optional[str],
    kv_swap: Optional[str],
    rules: List[str],
    percent: Optional[str],
    n_gpu_layers: Optional[int],
    objective: str,
    defer_experts: int,
    fewer_experts: Optional[Tuple[int, float]],
    attention_sparsity: Optional[float],
    sparse_prefill: Optional[float],
    batch: List[int],
    prompt: List[int],
    gen_tokens: int,
    measure: bool,
) -> Tuple[str, str]: ...
def chat_formats() -> List[Tuple[str, str]]: ...
def chat_format_of(template: str) -> str: ...
def check_options(options: Dict[str, Any]) -> None: ...
@final
class Grammar:
    @staticmethod
    def json() -> Grammar: ...
    @staticmethod
    def json_schema(schema: str, lenient: bool, compact: bool) -> Grammar: ...
    @staticmethod
    def regex(pattern: str) -> Grammar: ...
    @staticmethod
    def choice(choices: List[str]) -> Grammar: ...
    @staticmethod
    def gbnf(text: str) -> Grammar: ...
    @staticmethod
    def lark(text: str) -> Grammar: ...
    @staticmethod
    def structural_tag(tag: str) -> Grammar: ...
    def matches(self, text: bytes) -> bool: ...
    def allows(self, prefix: bytes) -> bool: ...
    def warnings(self) -> List[str]: ...

@final
class Matcher:
    def mask(self) -> NDArray[np.uint32]: ...
    def allows(self, token: int) -> bool: ...
    def accept(self, token: int) -> None: ...
    def forced(self) -> List[int]: ...
    def legal(self, tokens: List[int]) -> int: ...
    def rollback(self, count: int) -> None: ...
    def finished(self) -> bool: ...
    def accepting(self) -> bool: ...
    def fork(self) -> Matcher: ...

@final
class Stream:
    def next(self) -> Optional[_PieceRow]: ...
    def collect(self) -> List[_Answer]: ...
    def take_deltas(self) -> List[Tuple[int, _DeltaRow]]: ...
    def warnings(self) -> List[str]: ...
    def close(self) -> None: ...

@final
class ChatParser:
    def __new__(cls, format: str, tools: Optional[str], thinking: bool) -> ChatParser: ...
    def push(self, text: str) -> List[_DeltaRow]: ...
    def finish(self) -> List[_DeltaRow]: ...

@final
class Model:
    def __new__(
        cls,
        path: Union[str, PathLike[str]],
        *,
        device: str,
        context: Optional[int],
        kv_dtype: str,
        dtype: str,
        threads: Optional[int],
        loras: List[Tuple[str, str]],
        draft: Optional[str],
        cache_dir: Optional[str],
        cache_disk: Optional[int],
        memory: Optional[str],
        device_memory: Optional[str],
        offload: str,
        panel_cache: Optional[str],
        kv_swap: Optional[str],
        rules: List[str],
        percent: Optional[str],
        n_gpu_layers: Optional[int],
        objective: str,
        defer_experts: int,
        fewer_experts: Optional[Tuple[int, float]],
        attention_sparsity: Optional[float],
        sparse_prefill: Optional[float],
        progress: Optional[Callable[[int, int], Any]],
    ) -> Model: ...
    def close(self) -> None: ...
    def save_state(self, path: str, prompt: _Prompt, data: str, lora: Dict[str, float]) -> int: ...
    def load_state(self, path: str, lora: Dict[str, float]) -> Tuple[List[int], str, int]: ...
    def matcher(self, grammar: Grammar) -> Matcher: ...
    def stream(self, prompt: _Prompt, options: Dict[str, Any]) -> Stream: ...
    def chat(
        self,
        messages: str,
        template: Optional[str],
        tools: Optional[str],
        variables: str,
        split_special_tokens: bool,
        answer: Dict[str, Any],
        options: Dict[str, Any],
    ) -> Stream: ...
    def chat_format(self) -> str: ...
    def apply_chat_template(
        self,
        messages: str,
        template: Optional[str],
        tools: Optional[str],
        variables: str,
        add_generation_prompt: bool,
    ) -> str: ...
    def tokenize(self, text: str, special: bool) -> List[int]: ...
    def detokenize(self, ids: NDArray[np.uint32]) -> str: ...
    def logits(self, prompt: _Prompt, lora: Dict[str, float]) -> NDArray[np.float32]: ...
    def hidden(self, prompt: _Prompt, layer: int, lora: Dict[str, float]) -> NDArray[np.float32]: ...
    def embed(self, prompt: _Prompt, lora: Dict[str, float]) -> NDArray[np.float32]: ...
    def rerank(self, query: str, documents: List[str], lora: Dict[str, float]) -> NDArray[np.float32]: ...
    def perplexity(
        self, prompt: _Prompt, context: int, stride: int, lora: Dict[str, float]
    ) -> Tuple[float, float, int, float]: ...
    def config(self) -> str: ...
    def info(self) -> Dict[str, Any]: ...

@final
class Server:
    def __new__(
        cls,
        models: Sequence[Tuple[Optional[str], Union[str, PathLike[str], None], Optional[Model]]],
        config: Union[str, PathLike[str], None],
        options: List[Tuple[str, str]],
        sampling: Dict[str, Any],
    ) -> Server: ...
    def url(self) -> str: ...
    def port(self) -> int: ...
    def wait(self) -> None: ...
    def drain(self) -> None: ...
    def close(self) -> None: ...
