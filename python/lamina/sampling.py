"""Options of a request.

How tokens are chosen is Rust's affair: its list of parameters gives `SamplingParams` their names, defaults and
meanings, so nothing is written twice. `sampling.pyi` spells the list out for type checkers; a test compares the two.
"""

from __future__ import annotations

import inspect
from copy import copy
from typing import Any, Dict, List, Optional, TypedDict, Union

from . import checks
from ._lamina import check_options, sampling_params
from .constraint import ANNOTATIONS, take_grammar
from .errors import InvalidRequestError
from .foreign import SAMPLING, translated
from .grammar import Grammar
from .types import Processor

_PARAMS = sampling_params()

_OWN: Dict[str, Any] = {"max_tokens": None, "min_tokens": 0, "stop": [], "stop_token_ids": [],
                        "include_stop_str_in_output": False, "n": 1, "echo": False, "ignore_eos": False, "lora": {},
                        "grammar": None, "speculate": None, "context_shift": None,
                        "compress": None, "processor": None}  # fmt: skip
_OWN_DOCS = {
    "max_tokens": "Tokens of the answer at most; None: as many as the context holds; 0: only the prompt is computed.",
    "min_tokens": "Tokens before which nothing of stop, stop_token_ids and the model's own ends the answer; what a grammar ends, ends.",
    "stop": "Strings that end the answer; they are no part of it.",
    "stop_token_ids": "Tokens that end the answer beside the model's own.",
    "include_stop_str_in_output": "The string of stop that ended the answer stays in its text.",
    "n": "Answers to the same prompt, each from a random stream of its own.",
    "echo": "The prompt is put before the answer's text; with logprobs, those of the prompt's tokens come too.",
    "ignore_eos": "Tokens that end answers are chosen like any other.",
    "lora": "Adapters to use, of those that the model was loaded with: a name, or a dict of names and scales.",
    "grammar": "What the answer must look like: a `Grammar`, or GBNF or Lark as text. Or one of json_schema, regex, "
    "choice, response_format (also guided_json, guided_regex, guided_choice, guided_grammar, structured_outputs).",
    "context_shift": "Tokens of the beginning that stay when the context is full: the older half of the others leaves, what "
    "stays is computed again, and the answer goes on. None: it ends there.",
    "compress": "How the cache of the prompt is compressed behind it, which changes the answer: 'snapkv:1024' keeps in each "
    "layer and key head the last 32 tokens and the others that these look at most, 1024 in all; 'pyramidkv:1024' so many "
    "in the mean, fewer from layer to layer; 'h2o:1024' the last 512 and those that all of the prompt looks at most; "
    ",window=N and ,pool=N may follow. None: all stay.",
    "processor": "A function of the tokens so far, the prompt's too, and the row of logits of the next one, both arrays: it "
    "changes the row in place before a token is sampled. It is called once for each token that no grammar forces, and holds "
    "up the step of all requests while it runs: slow. What it raises ends the request.",
    "speculate": "How tokens are guessed ahead, which changes the speed and nothing else. None: as the model was loaded; "
    "False: not at all; a number: so many in each step, whatever they cost; or a dict of method, width and branches.",
}

_DEFAULTS: Dict[str, Any] = {**_OWN, **{name: default for name, _, _, default, _, _ in _PARAMS}}
_ALIASES: Dict[str, str] = {alias: name for name, aliases, _, _, _, _ in _PARAMS for alias in aliases}

_TYPES: Dict[str, Any] = {
    "float": float,
    "int": int,
    "optional int": Optional[int],
    "strings": List[str],
    "biases": Dict[int, float],
}
_FIELDS: Dict[str, Any] = {
    "max_tokens": Optional[int],
    "min_tokens": int,
    "stop": List[str],
    "stop_token_ids": List[int],
    "include_stop_str_in_output": bool,
    "n": int,
    "echo": bool,
    "ignore_eos": bool,
    "lora": Dict[str, float],
    "grammar": Optional[Grammar],
    "speculate": Union[None, bool, int, Dict[str, Any]],
    "context_shift": Optional[int],
    "compress": Optional[str],
    "processor": Optional[Processor],
}
_FIELDS.update({name: _TYPES[kind] for name, _, kind, _, _, _ in _PARAMS})

SamplingOptions = TypedDict(  # type: ignore[misc]
    "SamplingOptions",
    {**_FIELDS, **{alias: _FIELDS[name] for alias, name in _ALIASES.items()}, **ANNOTATIONS},
    total=False,
)
"""The keywords of `generate`, `stream`, `chat` and `SamplingParams`, for annotations."""


class SamplingParams:
    """Options of a request as one value that can be used again. It cannot be changed; `replace` makes another one.

    Examples:
        >>> careful = SamplingParams(temperature=0.2, top_p=0.9, max_tokens=100)
        >>> llm.generate("Once upon a time", sampling_params=careful)
        >>> llm.generate("Once upon a time", sampling_params=careful, seed=7)

    None means the default. Values are checked here: a wrong one raises `InvalidRequestError`, a name that does not
    exist `TypeError`. Names of vLLM's `SamplingParams` are understood; what is not here is an `UnsupportedError`.
    """

    def __init__(self, **options: Any) -> None:
        values = {**_DEFAULTS, **_clean(options)}
        # Copies: neither the defaults nor the caller's lists are shared.
        self.__dict__.update({name: value if callable(value) else copy(value) for name, value in values.items()})
        check_options(to_request(self))

    def replace(self, **options: Any) -> "SamplingParams":
        """The same options but for these."""
        return SamplingParams(**{**self.as_dict(), **_canonical(options)})

    def as_dict(self) -> Dict[str, Any]:
        """All options by name."""
        return dict(self.__dict__)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"SamplingParams cannot be changed: use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"SamplingParams cannot be changed: use replace({name}=None) for the default")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if isinstance(other, SamplingParams) else NotImplemented

    # Lists and dicts among the values cannot be hashed.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changed = (f"{k}={v!r}" for k, v in self.__dict__.items() if v != _DEFAULTS[k])
        return f"SamplingParams({', '.join(changed)})"


def to_request(params: SamplingParams) -> Dict[str, Any]:
    """What the binding has to be told."""
    options = params.as_dict()
    grammar = options["grammar"]
    options["grammar"] = None if grammar is None else grammar.compiled
    options["speculate"] = checks.speculate("speculate", options["speculate"])
    return options


def wants_logprobs(params: SamplingParams) -> bool:
    """True where answers bring the probabilities of their tokens."""
    return params.logprobs is not None and params.logprobs >= 0


def _canonical(options: Dict[str, Any]) -> Dict[str, Any]:
    """Options under their own names."""
    found: Dict[str, Any] = {}
    known = [*_DEFAULTS, *_ALIASES, *ANNOTATIONS]
    for given, value in take_grammar(translated(options, known, SAMPLING)).items():
        name = _ALIASES.get(given, given)
        if name in found:
            raise TypeError(f"{name!r} is given twice, once as {given!r}")
        found[name] = value
    return found


def _clean(options: Dict[str, Any]) -> Dict[str, Any]:
    """Options under their own names, without those that are None, and checked where Rust does not."""
    values = {k: v for k, v in _canonical(options).items() if v is not None}
    for name, least in (("max_tokens", 0), ("min_tokens", 0), ("n", 1), ("context_shift", 0)):
        if name in values:
            values[name] = checks.whole(name, values[name], least)
    for name in values.keys() & {"echo", "ignore_eos", "include_stop_str_in_output"}:
        values[name] = checks.flag(name, values[name])
    for name in values.keys() & {"stop", "dry_sequence_breakers"}:
        values[name] = checks.texts(name, values[name])
    if "stop_token_ids" in values:
        values["stop_token_ids"] = checks.token_ids("stop_token_ids", values["stop_token_ids"]).tolist()
    if "compress" in values:
        values["compress"] = checks.text("compress", values["compress"])
    if "processor" in values and not callable(values["processor"]):
        raise InvalidRequestError(f"processor takes a function of tokens and logits, but {values['processor']!r} was given")
    if "lora" in values:
        values["lora"] = checks.lora("lora", values["lora"])
    if isinstance(values.get("logprobs"), bool):
        # OpenAI's chat API switches the report on and off.
        values["logprobs"] = 0 if values["logprobs"] else None
    return values


def _describe() -> str:
    """The documentation of all options."""
    rows = [f"{name} = {_OWN[name]!r}: {text}" for name, text in _OWN_DOCS.items()]
    for name, aliases, kind, default, (least, most), text in _PARAMS:
        also = f" (also {', '.join(aliases)})" if aliases else ""
        limits = f" From {least:g} to {most:g}." if kind in ("float", "int", "optional int") else ""
        rows.append(f"{name}{also} = {default!r}: {text}{limits}")
    return "\n".join(f"    {row}" for row in rows)


# Class attributes are the defaults, as in a dataclass.
for _name, _default in _DEFAULTS.items():
    setattr(SamplingParams, _name, _default)
SamplingParams.__doc__ = f"{SamplingParams.__doc__}\n{_describe()}\n"
SamplingParams.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in _DEFAULTS.items()
    ]
)
