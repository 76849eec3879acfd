"""What requests are given."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, TypedDict, Union

from ...errors import InvalidRequestError
from ...sampling import SamplingParams as Params


class TextPrompt(TypedDict):
    """A prompt as text."""

    prompt: str


class TokensPrompt(TypedDict):
    """A prompt as token ids."""

    prompt_token_ids: List[int]


FIELDS: Dict[str, Any] = {
    "n": 1,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "seed": None,
    "stop": [],
    "stop_token_ids": [],
    "ignore_eos": False,
    "max_tokens": 16,
    "min_tokens": 0,
    "logprobs": None,
    "prompt_logprobs": None,
    "flat_logprobs": False,
    "detokenize": True,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "include_stop_str_in_output": False,
    "truncate_prompt_tokens": None,
    "output_kind": None,
    "skip_clone": False,
    "structured_outputs": None,
    "guided_decoding": None,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": [],
    "extra_args": None,
    "skip_reading_prefix_cache": None,
    "thinking_token_budget": None,
    "repetition_detection": None,
    "logits_processors": None,
    "best_of": None,
}
"""Fields of vLLM's `SamplingParams`, those of older versions too, with their defaults. What is neither here nor an option of
`lamina.SamplingParams` does not exist."""


class SamplingParams:
    """Options of a request under vLLM's names, with its defaults: temperature 1, sixteen tokens, nothing cut off. Samplers
    of `lamina.SamplingParams` are taken beside them. UnsupportedError names an option that asks for what is not here,
    TypeError one that does not exist; both where it is given, and where it is set later.
    """

    def __init__(self, n: int = 1, **options: Any) -> None:
        given = {**FIELDS, "n": n, **{name: value for name, value in options.items() if value is not None}}
        # There None is the longest answer, and here no field said so.
        given["max_tokens"] = options.get("max_tokens", FIELDS["max_tokens"])
        given["stop"] = [given["stop"]] if isinstance(given["stop"], str) else list(given["stop"])
        self.__dict__.update({name: copy(value) for name, value in given.items()}, _ours=_meant(given))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"SamplingParams has no field {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        # All options are read again: what cannot be had is told here, and not left out of answers.
        if name not in self._given():
            raise AttributeError(f"SamplingParams has no field {name!r}")
        self.__dict__.update(SamplingParams(**{**self._given(), name: value}).__dict__)

    @staticmethod
    def from_optional(n: Optional[int] = 1, **options: Any) -> SamplingParams:
        """The same, where None is the default of most options."""
        return SamplingParams(1 if n is None else n, **options)

    def ours(self) -> Params:
        """The same for `lamina.LLM`."""
        ours: Params = self.__dict__["_ours"]
        return ours

    def clone(self) -> SamplingParams:
        """The same options, to be changed apart."""
        return SamplingParams(**self._given())

    def _given(self) -> Dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_ours"}

    def __repr__(self) -> str:
        usual = {**FIELDS, "max_tokens": 0}
        changed = {name: value for name, value in self._given().items() if name not in usual or value != usual[name]}
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def _meant(given: Dict[str, Any]) -> Params:
    """Fields as options of `lamina.SamplingParams`, which refuses by name what it has not."""
    values = dict(given)
    form = values.pop("structured_outputs") or values.get("guided_decoding")
    values.pop("guided_decoding")
    logprobs, prompt_logprobs = values.pop("logprobs"), values.pop("prompt_logprobs")
    asked = [count for count in (logprobs, prompt_logprobs) if count is not None]
    values.update(form.ours() if form else {}, top_k=max(values["top_k"], 0))
    # A chosen token is told even where none beside it is.
    return Params(logprobs=max(1, *asked, 1) if asked else None, echo=prompt_logprobs is not None, **values)


@dataclass
class StructuredOutputsParams:
    """What an answer must look like: one of these."""

    json: Union[None, str, Dict[str, Any], type] = None
    regex: Optional[str] = None
    choice: Optional[List[str]] = None
    grammar: Optional[str] = None
    json_object: Optional[bool] = None

    def ours(self) -> Dict[str, Any]:
        """The option of `lamina.SamplingParams` that says it."""
        forms = {
            "json_schema": self.json,
            "regex": self.regex,
            "choice": self.choice,
            "grammar": self.grammar,
            "response_format": {"type": "json_object"} if self.json_object else None,
        }
        given = {name: value for name, value in forms.items() if value is not None}
        if len(given) != 1:
            raise InvalidRequestError("structured outputs take one of json, regex, choice, grammar and json_object")
        return given


GuidedDecodingParams = StructuredOutputsParams
"""The older name."""


@dataclass
class BeamSearchParams:
    """Options of `LLM.beam_search`."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        fixed = {"ignore_eos": False, "temperature": 0.0, "include_stop_str_in_output": False}
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise InvalidRequestError(f"{name}={getattr(self, name)!r} is not supported: beam search takes {value!r}")


@dataclass
class LoRARequest:
    """An adapter that requests use. Adapters are loaded with the model, by `LLM(.., loras={name: path})`, under this name."""

    lora_name: str
    lora_int_id: int = 1
    lora_path: str = ""
