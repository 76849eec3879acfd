from inspect import Signature
from typing import Any, ClassVar, Dict, List, Optional, Tuple, TypedDict, Union

from typing_extensions import Unpack

from .grammar import Grammar
from .types import Processor, Reasoning

class _ChatOptions(TypedDict, total=False):
    max_tokens: Optional[int]
    min_tokens: Optional[int]
    stop: Union[None, str, List[str]]
    stop_token_ids: Optional[List[int]]
    include_stop_str_in_output: Optional[bool]
    n: Optional[int]
    echo: Optional[bool]
    ignore_eos: Optional[bool]
    lora: Union[None, str, Dict[str, float]]
    grammar: Union[None, str, Grammar]
    speculate: Union[None, bool, int, Dict[str, Any]]
    context_shift: Optional[int]
    compress: Optional[str]
    processor: Optional[Processor]
    json_schema: Any
    regex: Optional[str]
    choice: Union[None, List[str], Tuple[str, ...]]
    guided_json: Any
    guided_regex: Optional[str]
    guided_choice: Union[None, List[str], Tuple[str, ...]]
    guided_grammar: Union[None, str, Grammar]
    structured_outputs: Any
    logit_bias: Optional[Dict[int, float]]
    repeat_penalty: Optional[float]
    repetition_penalty: Optional[float]
    repeat_last_n: Optional[int]
    penalty_last_n: Optional[int]
    presence_penalty: Optional[float]
    frequency_penalty: Optional[float]
    dry_multiplier: Optional[float]
    dry_base: Optional[float]
    dry_allowed_length: Optional[int]
    dry_penalty_last_n: Optional[int]
    dry_sequence_breakers: Union[None, str, List[str]]
    top_n_sigma: Optional[float]
    top_k: Optional[int]
    typical_p: Optional[float]
    typical: Optional[float]
    top_p: Optional[float]
    min_p: Optional[float]
    xtc_probability: Optional[float]
    xtc_threshold: Optional[float]
    temperature: Optional[float]
    temp: Optional[float]
    dynatemp_range: Optional[float]
    dynatemp_exponent: Optional[float]
    mirostat: Optional[int]
    mirostat_mode: Optional[int]
    mirostat_tau: Optional[float]
    mirostat_eta: Optional[float]
    seed: Optional[int]
    min_keep: Optional[int]
    logprobs: Union[None, int, bool]
    n_probs: Union[None, int, bool]
    post_sampling_probs: Union[None, int, bool]

class _ChatCall(_ChatOptions, total=False):
    chat_template: Optional[str]
    chat_template_kwargs: Optional[Dict[str, Any]]
    split_special_tokens: bool
    tool_choice: Union[str, Dict[str, Any]]
    parallel_tool_calls: bool
    reasoning: Reasoning
    chat_format: Optional[str]
    sampling_params: Optional[SamplingParams]

class SamplingOptions(_ChatOptions, total=False):
    response_format: Any

class SamplingParams:
    __signature__: ClassVar[Signature]
    max_tokens: Optional[int]
    min_tokens: int
    stop: List[str]
    stop_token_ids: List[int]
    include_stop_str_in_output: bool
    n: int
    echo: bool
    ignore_eos: bool
    lora: Dict[str, float]
    grammar: Optional[Grammar]
    speculate: Union[None, bool, int, Dict[str, Any]]
    context_shift: Optional[int]
    compress: Optional[str]
    processor: Optional[Processor]
    logit_bias: Dict[int, float]
    repeat_penalty: float
    repeat_last_n: int
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: List[str]
    top_n_sigma: float
    top_k: int
    typical_p: float
    top_p: float
    min_p: float
    xtc_probability: float
    xtc_threshold: float
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    seed: Optional[int]
    min_keep: int
    logprobs: Optional[int]
    post_sampling_probs: int
    def __init__(self, **options: Unpack[SamplingOptions]) -> None: ...
    def replace(self, **options: Unpack[SamplingOptions]) -> SamplingParams: ...
    def as_dict(self) -> Dict[str, Any]: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __delattr__(self, name: str) -> None: ...
    def __eq__(self, other: object) -> bool: ...

def to_request(params: SamplingParams) -> Dict[str, Any]: ...
def wants_logprobs(params: SamplingParams) -> bool: ...
