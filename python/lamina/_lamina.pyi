from os import PathLike
from typing import Any, Callable, Dict, List, Optional, Tuple, Union, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Model", "Stream", "__version__", "check_options", "cli_main", "sampling_params"]

__version__: str

_Prompt = Union[str, NDArray[np.uint32]]
_Logprob = Tuple[float, List[Tuple[int, float]]]
_End = Tuple[str, Union[int, Tuple[int], str, None]]
_Scored = Tuple[int, float, List[Tuple[int, float]]]
_Times = Tuple[float, float, float, int]
_Answer = Tuple[str, List[int], _End, List[_Logprob], List[_Scored], Tuple[int, int], _Times]
_PieceRow = Tuple[int, str, Optional[int], Optional[float], List[Tuple[int, float]], Optional[str]]

def sampling_params() -> List[Tuple[str, List[str], str, Any, Tuple[float, float], str]]: ...
def cli_main(args: List[str]) -> int: ...
def check_options(options: Dict[str, Any]) -> None: ...
@final
class Stream:
    def next(self) -> Optional[_PieceRow]: ...
    def collect(self) -> List[_Answer]: ...
    def close(self) -> None: ...

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
        progress: Optional[Callable[[int, int], Any]],
    ) -> Model: ...
    def close(self) -> None: ...
    def stream(self, prompt: _Prompt, options: Dict[str, Any]) -> Stream: ...
    def chat(
        self,
        messages: str,
        template: Optional[str],
        tools: Optional[str],
        variables: str,
        split_special_tokens: bool,
        options: Dict[str, Any],
    ) -> Stream: ...
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
    def perplexity(
        self, prompt: _Prompt, context: int, stride: int, lora: Dict[str, float]
    ) -> Tuple[float, float, int, float]: ...
    def config(self) -> str: ...
    def info(self) -> Dict[str, Any]: ...
