"""Schemas as llama.cpp reads them: an object has no members beside those that `properties` names, unless the schema says so.

JSON Schema allows any others where nothing is said, and a small model then writes members for as long as it may.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Set

_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "prefixItems", "items")
_ONE = ("items", "additionalProperties")
_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")


def closed(schema: Any) -> Any:
    """`schema` with no further members wherever it does not speak of them."""
    return _closed(schema, set(_parts(schema)))


def closed_format(response_format: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """A chat's `response_format` with its schema closed, wherever the format has it."""
    made = dict(response_format or {})
    if isinstance(made.get("json_schema"), dict):
        made["json_schema"] = closed_format(made["json_schema"])
    if "schema" in made:
        made["schema"] = closed(made["schema"])
    return made or response_format


def _parts(value: Any) -> Iterator[str]:
    """References that stand in an `allOf`: each tells some members of one object, and others tell the rest."""
    if isinstance(value, dict):
        for part in value["allOf"] if isinstance(value.get("allOf"), list) else ():
            if isinstance(part, dict) and isinstance(part.get("$ref"), str):
                yield part["$ref"]
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)


def _closed(schema: Any, parts: Set[str], place: str = "#", is_part: bool = False) -> Any:
    if not isinstance(schema, dict):
        return schema
    made: Dict[str, Any] = dict(schema)
    for key in _MAPS:
        if isinstance(schema.get(key), dict):
            made[key] = {name: _closed(one, parts, f"{place}/{key}/{name}") for name, one in schema[key].items()}
    for key in _LISTS:
        if isinstance(schema.get(key), list):
            made[key] = [_closed(one, parts, f"{place}/{key}/{at}", is_part) for at, one in enumerate(schema[key])]
    for key in _ONE:
        if isinstance(schema.get(key), dict):
            made[key] = _closed(schema[key], parts, f"{place}/{key}")
    if isinstance(schema.get("allOf"), list):
        made["allOf"] = [_closed(one, parts, f"{place}/allOf/{at}", True) for at, one in enumerate(schema["allOf"])]
    says = any(key in schema for key in _OTHERS)
    if not is_part and place not in parts and not says and ("properties" in schema or "allOf" in schema):
        made["unevaluatedProperties" if "allOf" in schema else "additionalProperties"] = False
    return made
