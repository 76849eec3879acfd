from typing import Any, Dict, List, Optional, TypedDict, Union

from typing_extensions import Unpack

class SamplingOptions(TypedDict, total=False):
    max_tokens: Optional[int]
    stop: Union[None, str, List[str]]
    n: Optional[int]
    echo: Optional[bool]
    ignore_eos: Optional[bool]
