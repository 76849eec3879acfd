"""What requests are given."""

from __future__ import annotations

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


class SamplingParams:
    """Options of a request under vLLM's names, with its defaults: temperature 1, sixteen tokens, nothing cut off. Samplers
    of `lamina.SamplingParams` are taken beside them. UnsupportedError names an option that asks for what is not here,
    TypeError one that does not exist.
    """

    def __init__(
        self,
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        max_tokens: Optional[int] = 16,
        stop: Union[None, str, List[str]] = None,
        logprobs: Optional[int] = None,
        prompt_logprobs: Optional[int] = None,
        structured_outputs: Optional[StructuredOutputsParams] = None,
        guided_decoding: Optional[StructuredOutputsParams] = None,
        **options: Any,
    ) -> None:
        self.n, self.temperature, self.top_p, self.top_k, self.min_p = n, temperature, top_p, top_k, min_p
        self.max_tokens, self.stop = max_tokens, [stop] if isinstance(stop, str) else list(stop or [])
        self.logprobs, self.prompt_logprobs, self.options = logprobs, prompt_logprobs, options
        form = structured_outputs or guided_decoding
        self.structured_outputs = form
        asked = [count for count in (logprobs, prompt_logprobs) if count is not None]
        self._ours = Params(
            n=n,
            temperature=temperature,
            top_p=top_p,
            top_k=max(top_k, 0),
            min_p=min_p,
            max_tokens=max_tokens,
            stop=self.stop,
            # A chosen token is told even where none beside it is.
            logprobs=max(1, *asked, 1) if asked else None,
            echo=prompt_logprobs is not None,
            **{**(form.ours() if form else {}), **options},
        )

    def ours(self) -> Params:
        """The same for `lamina.LLM`."""
        return self._ours

    def clone(self) -> SamplingParams:
        """The same options; none of them changes."""
        return self

    def __repr__(self) -> str:
        named = ("n", "temperature", "top_p", "top_k", "min_p", "max_tokens", "stop", "logprobs", "prompt_logprobs")
        given = {**{name: getattr(self, name) for name in named}, **self.options}
        return f"SamplingParams({', '.join(f'{name}={value!r}' for name, value in given.items())})"


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
