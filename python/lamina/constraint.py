"""Ways to say what an answer must look like: each option, Lamina's own or another engine's, becomes a `Grammar`."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from .errors import InvalidRequestError
from .grammar import Grammar


def _grammar(value: Union[str, Grammar]) -> Grammar:
    if isinstance(value, Grammar):
        return value
    if not isinstance(value, str):
        raise InvalidRequestError(f"grammar takes a lamina.Grammar, or GBNF or Lark as text, but {value!r} was given")
    # Lark has no such sign.
    return Grammar.from_gbnf(value) if "::=" in value else Grammar.from_lark(value)


def _json_schema(value: Any) -> Grammar:
    return value if isinstance(value, Grammar) else Grammar.from_json_schema(value)


def _regex(value: str) -> Grammar:
    if not isinstance(value, str):
        raise InvalidRequestError(f"regex takes text, but {value!r} was given")
    return Grammar.from_regex(value)


def _choice(value: Sequence[str]) -> Grammar:
    if not isinstance(value, (list, tuple)):
        raise InvalidRequestError(f"choice takes a list of texts, but {value!r} was given")
    return Grammar.from_choice(value)


def _response_format(value: Any) -> Optional[Grammar]:
    """OpenAI's option, with what llama-cpp-python and vLLM add to it."""
    if isinstance(value, type):
        return Grammar.from_json_schema(value)
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidRequestError(f'response_format takes a dict with a "type", but {value!r} was given')
    kind = value["type"]
    if kind == "text":
        return None
    if kind == "json_object":
        schema = value.get("schema")
        return Grammar.json() if schema is None else Grammar.from_json_schema(schema)
    if kind == "json_schema":
        return _named_schema(value.get("json_schema"))
    if kind == "structural_tag":
        return Grammar.from_structural_tag(value)
    kinds = "text, json_object, json_schema or structural_tag"
    raise InvalidRequestError(f"response_format: type is {kind!r}, but must be {kinds}")


def _named_schema(named: Any) -> Grammar:
    if not isinstance(named, dict) or "schema" not in named:
        raise InvalidRequestError('response_format: json_schema takes {"name": ..., "schema": ...}')
    # Where the caller says that it need not be exact, what cannot be enforced is left out, with a warning.
    return Grammar.from_json_schema(named["schema"], lenient=named.get("strict") is False)


def _structured_outputs(value: Any) -> Optional[Grammar]:
    """vLLM's option: a dict, or an object with the same fields."""
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if not isinstance(fields, dict):
        raise InvalidRequestError(f"structured_outputs takes a dict, but {value!r} was given")
    given = {name: field for name, field in fields.items() if field not in (None, False)}
    if len(given) != 1 or not given.keys() <= _STRUCTURED.keys():
        names = ", ".join(_STRUCTURED)
        raise InvalidRequestError(f"structured_outputs takes one of {names}, but {sorted(given)} were given")
    ((name, field),) = given.items()
    return _STRUCTURED[name](field)


_Maker = Callable[[Any], Optional[Grammar]]

_STRUCTURED: Dict[str, _Maker] = {
    "json": _json_schema,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "json_object": lambda _: Grammar.json(),
    "structural_tag": Grammar.from_structural_tag,
}

SOURCES: Dict[str, _Maker] = {
    "grammar": _grammar,
    "json_schema": _json_schema,
    "regex": _regex,
    "choice": _choice,
    "response_format": _response_format,
    "guided_json": _json_schema,
    "guided_regex": _regex,
    "guided_choice": _choice,
    "guided_grammar": _grammar,
    "structured_outputs": _structured_outputs,
}
"""Options that say what an answer must look like, with what makes a grammar of them."""

ANNOTATIONS: Dict[str, Any] = {
    "grammar": Union[str, Grammar],
    "json_schema": Any,
    "regex": str,
    "choice": List[str],
    "response_format": Any,
    "guided_json": Any,
    "guided_regex": str,
    "guided_choice": List[str],
    "guided_grammar": Union[str, Grammar],
    "structured_outputs": Any,
}
"""What they take."""


def take_grammar(options: Dict[str, Any]) -> Dict[str, Any]:
    """`options` with those of `SOURCES` as one `grammar`."""
    given = {name: value for name, value in options.items() if name in SOURCES}
    if not given:
        return options
    rest = {name: value for name, value in options.items() if name not in SOURCES}
    said = [name for name, value in given.items() if value is not None]
    if len(said) > 1:
        raise InvalidRequestError(f"an answer has one grammar, but {' and '.join(said)} were given: leave out all but one")
    rest["grammar"] = SOURCES[said[0]](given[said[0]]) if said else None
    return rest
