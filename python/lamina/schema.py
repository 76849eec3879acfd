"""JSON schemas of Python types: pydantic models as they say themselves, dataclasses from their annotations."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any, Dict, List, Union

from .errors import UnsupportedError

_PLAIN: Dict[Any, Dict[str, Any]] = {
    Any: {},
    object: {},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    None: {"type": "null"},
    list: {"type": "array"},
    dict: {"type": "object"},
}
# `int | str`, from Python 3.10 on.
_UNIONS = (Union, getattr(types, "UnionType", Union))


def schema_of(source: Any) -> Any:
    """The schema that `source` is or stands for."""
    if isinstance(source, (dict, bool)):
        return source
    for method in ("model_json_schema", "json_schema", "schema"):
        # pydantic 2, its type adapters, and pydantic 1.
        if callable(getattr(source, method, None)):
            return getattr(source, method)()
    if dataclasses.is_dataclass(source):
        return _Builder().root(source if isinstance(source, type) else type(source))
    raise UnsupportedError(
        f"a schema is a dict, JSON text, a pydantic model or a dataclass, not {type(source).__name__}"
    )


class _Builder:
    """Dataclasses become definitions, so that they may refer to themselves."""

    def __init__(self) -> None:
        self.defs: Dict[str, Any] = {}
        self.classes: Dict[str, type] = {}

    def root(self, cls: type) -> Dict[str, Any]:
        return {**self.of(cls), "$defs": self.defs}

    def of(self, kind: Any) -> Dict[str, Any]:
        if isinstance(kind, typing.Hashable) and kind in _PLAIN:
            return _PLAIN[kind]
        if dataclasses.is_dataclass(kind):
            return self.dataclass(kind)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return {"enum": [member.value for member in kind]}
        origin, arguments = typing.get_origin(kind), list(typing.get_args(kind))
        if origin is typing.Literal:
            return {"enum": arguments}
        if origin in _UNIONS:
            return {"anyOf": [self.of(argument) for argument in arguments]}
        if origin is getattr(typing, "Annotated", None):
            return self.of(arguments[0])
        if origin in (list, set, frozenset, typing.get_origin(typing.Sequence[int])):
            unique = {"uniqueItems": True} if origin in (set, frozenset) else {}
            return {"type": "array", "items": self.of(arguments[0]), **unique}
        if origin is tuple:
            return self.tuple(arguments)
        if origin in (dict, typing.get_origin(typing.Mapping[str, int])) and arguments[0] is str:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise UnsupportedError(f"{kind!r} has no JSON schema: write the schema as a dict")

    def tuple(self, arguments: List[Any]) -> Dict[str, Any]:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        items = [self.of(argument) for argument in arguments]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}

    def dataclass(self, cls: Any) -> Dict[str, Any]:
        name = cls.__name__
        while self.classes.get(name, cls) is not cls:
            name += "_"
        if name not in self.classes:
            self.classes[name] = cls
            hints = typing.get_type_hints(cls)
            fields = [field for field in dataclasses.fields(cls) if field.init]
            missing = dataclasses.MISSING
            self.defs[name] = {
                "type": "object",
                "properties": {field.name: self.of(hints[field.name]) for field in fields},
                "required": [f.name for f in fields if f.default is missing and f.default_factory is missing],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}
