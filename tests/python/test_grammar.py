"""`lamina.Grammar`: judging texts without a model. The judge of schemas is the `jsonschema` package, where it is there."""

import dataclasses
import enum
import json
import pickle
import random
from typing import Dict, List, Literal, Optional, Tuple

import lamina
import pytest


def test_each_source_makes_a_grammar():
    for grammar, yes, no in [
        (lamina.Grammar.json(), '{"a": [1]}', "[1]"),
        (lamina.Grammar.from_json_schema({"type": "integer"}), "12", "1.5"),
        (lamina.Grammar.from_json_schema('{"enum": ["é"]}'), '"é"', '"e"'),
        (lamina.Grammar.from_regex(r"\d{3}"), "123", "12"),
        (lamina.Grammar.from_choice(["yes", "no"]), "yes", "y"),
        (lamina.Grammar.from_gbnf('root ::= "(" root ")" | "x"'), "((x))", "((x)"),
        (lamina.Grammar.from_lark("start: /a+/ NUM\nNUM: /[0-9]/"), "aa1", "a"),
        (lamina.Grammar.from_structural_tag({"format": {"type": "const_string", "value": "a"}}), "a", "b"),
    ]:
        assert grammar.matches(yes) and grammar.matches(yes.encode()) and not grammar.matches(no)
        assert grammar.allows(yes[:1]) and not grammar.allows("\ud800") and not grammar.allows(b"\xff")
        again = pickle.loads(pickle.dumps(grammar))
        assert again == grammar and hash(again) == hash(grammar) and again.matches(yes)
        assert grammar.kind in repr(grammar)


def test_refusals_name_keyword_and_place():
    schema = {"properties": {"tags": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(lamina.UnsupportedError, match="uniqueItems at /properties/tags"):
        lamina.Grammar.from_json_schema(schema)
    lenient = lamina.Grammar.from_json_schema(schema, lenient=True)
    assert "uniqueItems at /properties/tags" in lenient.warnings[0]
    with pytest.raises(lamina.InvalidRequestError, match="/items/type"):
        lamina.Grammar.from_json_schema({"items": {"type": "text"}})
    with pytest.raises(lamina.InvalidRequestError, match="line 2, column 7"):
        lamina.Grammar.from_gbnf('root ::= a\na ::= *"b"')
    with pytest.raises(lamina.InvalidRequestError, match="not JSON"):
        lamina.Grammar.from_json_schema("{")
    with pytest.raises(lamina.InvalidRequestError):
        lamina.Grammar.from_json_schema({}, whitespace="some")
    with pytest.raises(lamina.InvalidRequestError):
        lamina.Grammar.from_choice("yes")
    with pytest.raises(TypeError):
        lamina.Grammar()


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Drawing:
    name: str
    color: Color
    mode: Literal["a", "b"]
    points: List[Point]
    pair: Tuple[int, str]
    parts: Optional["Drawing"] = None
    notes: Dict[str, int] = dataclasses.field(default_factory=dict)


def test_dataclasses_are_schemas():
    grammar = lamina.Grammar.from_json_schema(Drawing)
    good = {"name": "n", "color": "red", "mode": "a", "points": [{"x": 1.5, "y": 2}], "pair": [1, "a"], "parts": None}
    assert grammar.matches(json.dumps(good))
    assert grammar.matches(json.dumps({**good, "parts": good, "notes": {"k": 1}}))
    for bad in ({"color": "green"}, {"pair": [1]}, {"points": [{"y": 1}]}, {"more": 1}):
        assert not grammar.matches(json.dumps({**good, **bad}))
    with pytest.raises(lamina.UnsupportedError):
        lamina.Grammar.from_json_schema(object())


def test_pydantic_models_are_schemas():
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("User", name=(str, ...), age=(Optional[int], None))
    grammar = lamina.Grammar.from_json_schema(model)
    assert grammar.matches('{"name": "a", "age": 3}') and not grammar.matches('{"age": 3}')


def random_schema(rng, depth):
    """A schema of keywords that are enforced."""
    kind = rng.randrange(9 if depth else 5)
    if kind == 0:
        return {"type": "integer", "minimum": rng.randint(-20, 5), "maximum": rng.randint(5, 300)}
    if kind == 1:
        return {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(2, 4)}
    if kind == 2:
        return {"enum": rng.sample([None, True, 3, 2.5, "a", "é", "\nb", [1], {"k": 1}], 3)}
    if kind == 3:
        return {"type": "string", "pattern": rng.choice(["^a+b?$", "^[ab]{1,3}$", "a"])}
    if kind == 4:
        return {"type": ["null", "boolean", "number"], "multipleOf": rng.choice([1, 3])}
    if kind == 5:
        return {"type": "array", "items": random_schema(rng, depth - 1), "maxItems": 3}
    if kind == 6:
        return {"anyOf": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)]}
    if kind == 7:
        return {"type": "array", "prefixItems": [random_schema(rng, depth - 1)], "items": False}
    names = rng.sample("abcd", 3)
    return {
        "type": "object",
        "properties": {name: random_schema(rng, depth - 1) for name in names},
        "required": names[: rng.randrange(3)],
        "additionalProperties": rng.choice([False, True, random_schema(rng, depth - 1)]),
    }


def random_value(rng, depth=2):
    kind = rng.randrange(7 if depth else 5)
    if kind < 5:
        return rng.choice([None, True, False, 0, 3, -7, 6, 250, 2.5, "", "a", "ab", "aab", "é", "\nb", "abcde"])
    if kind == 5:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {name: random_value(rng, depth - 1) for name in "abcdk"[: rng.randrange(5)]}


def test_random_schemas_are_judged_as_jsonschema_does():
    jsonschema = pytest.importorskip("jsonschema")
    rng, valid = random.Random(3), 0
    for _ in range(300):
        schema = random_schema(rng, 2)
        grammar = lamina.Grammar.from_json_schema(schema)
        judge = jsonschema.Draft202012Validator(schema)
        for _ in range(20):
            value = random_value(rng)
            if isinstance(value, dict):
                # Members come in the order of `properties`.
                order = list(schema.get("properties", {}))
                value = dict(sorted(value.items(), key=lambda m: order.index(m[0]) if m[0] in order else len(order)))
            expected = judge.is_valid(value)
            accepted = grammar.matches(json.dumps(value, ensure_ascii=False))
            assert not accepted or expected, (schema, value)
            # Members inside of others may be in another order.
            if expected and not (isinstance(value, (dict, list)) and "{" in json.dumps(value)[1:]):
                assert accepted, (schema, value)
            valid += expected
    assert valid > 100
