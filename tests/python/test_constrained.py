"""Requests with a grammar, on the model inside the package. The judge of schemas is the `jsonschema` package.

`LAMINA_FUZZ=10000 pytest tests/python/test_constrained.py -k random` samples from ten thousand random schemas.
"""

import dataclasses
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor

import lamina
import numpy as np
import pytest

PROMPT = "Once upon a time there was a girl. Her story: "
HOT = {"temperature": 1.5, "max_tokens": 120}

SCHEMAS = [
    {"type": "integer", "minimum": -7, "maximum": 1200},
    {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": 0, "maximum": 9},
    {"type": "string", "maxLength": 9},
    {"type": "string", "pattern": "^[A-Z][a-z]{1,4}( [0-9]+)?$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "uuid"},
    {"enum": ["a cat", "é", 3, None, [1], {"k": True}]},
    {"const": {"name": "naïve", "of": [1, 2.5, "日本"]}},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "null"}, {"enum": ["x", "y"]}], "items": False, "minItems": 2},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 4}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "patternProperties": {"^x[0-9]$": {"type": "boolean"}}, "additionalProperties": False, "maxProperties": 1},
    {"anyOf": [{"type": "boolean"}, {"type": "string", "maxLength": 3}]},
    {"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}, "v": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["t", "v"], "additionalProperties": False}, {"type": "object", "properties": {"t": {"const": "b"}}, "required": ["t"], "additionalProperties": False}]},
    {"allOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 40}], "not": {"enum": [7, 13]}},
    {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": {"enum": [1, 2]}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}}},
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}, "dependentRequired": {"a": ["b"]}, "additionalProperties": False},
    {"if": {"type": "string"}, "then": {"maxLength": 2}, "else": {"type": "integer", "minimum": 10, "maximum": 12}},
    {"type": ["null", "integer"], "minimum": 0, "maximum": 9},
]  # fmt: skip


@pytest.fixture(scope="module")
def llm():
    with lamina.LLM(context=256, seed=3, progress=False) as llm:
        yield llm


def compact(schema):
    return lamina.Grammar.from_json_schema(schema, whitespace="compact")


def text_of(answer):
    """Without what a character that was cut shows as."""
    return answer.text.rstrip("\ufffd")


def judge_of(jsonschema, schema):
    """The checker of the draft: the general one takes `time` as Draft 3 had it, without an offset."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator(schema, format_checker=checker)


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_answers_satisfy_their_schema(llm, number):
    jsonschema = pytest.importorskip("jsonschema")
    schema = SCHEMAS[number]
    judge = judge_of(jsonschema, schema)
    grammar = compact(schema)
    answer = llm.generate(PROMPT, grammar=grammar, n=6, seed=number, **HOT)
    finished = [one for one in answer.completions if one.finish_reason == "stop"]
    assert finished, answer.text
    for one in answer.completions:
        assert one.complete == grammar.matches(one.text)
        assert grammar.allows(text_of(one)), one.text
    for one in finished:
        assert one.complete
        judge.validate(json.loads(one.text))


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_cut_answers_are_beginnings(llm, number):
    grammar = compact(SCHEMAS[number])
    for most in [*range(1, 60, 7), 60]:
        answer = llm.generate(PROMPT, grammar=grammar, temperature=1.5, max_tokens=most, seed=number)
        assert grammar.allows(text_of(answer)), answer.text
        assert answer.complete == grammar.matches(answer.text)
        assert (answer.finish_reason, answer.complete) != ("stop", False)


def test_company_changes_nothing(llm):
    grammars = [compact(schema) for schema in SCHEMAS[:8]]

    def ask(i):
        grammar = grammars[i // 2] if i % 2 else None
        return llm.generate(f"{PROMPT}{i}", grammar=grammar, temperature=1.5, max_tokens=40, seed=i, logprobs=1)

    alone = [ask(i) for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, range(16)))
    assert [a.tokens for a in alone] == [t.tokens for t in together]
    assert [a.logprobs for a in alone] == [t.logprobs for t in together]


@dataclasses.dataclass
class Pet:
    name: str
    age: int


def test_every_way_to_say_it(llm):
    schema = {"enum": ["only this"]}
    same = '"only this"'
    for options in [
        {"grammar": lamina.Grammar.from_json_schema(schema)},
        {"grammar": 'root ::= "\\"only this\\""'},
        {"grammar": 'start: "\\"only this\\""'},
        {"json_schema": schema},
        {"json_schema": json.dumps(schema)},
        {"regex": '"only this"'},
        {"choice": ['"only this"']},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}},
        {"response_format": {"type": "json_object", "schema": schema}},
        {"response_format": {"type": "structural_tag", "format": {"type": "const_string", "value": same}}},
        {"guided_json": schema},
        {"guided_regex": '"only this"'},
        {"guided_choice": ['"only this"']},
        {"guided_grammar": 'root ::= "\\"only this\\""'},
        {"structured_outputs": {"json": schema}},
        {"structured_outputs": {"choice": ['"only this"'], "regex": None}},
    ]:
        answer = llm.generate(PROMPT, max_tokens=60, **options)
        assert (answer.text, answer.finish_reason, answer.complete) == (same, "stop", True), options
        assert llm.generate(PROMPT, sampling_params=lamina.SamplingParams(max_tokens=60, **options)).text == same
    pieces = list(llm.stream(PROMPT, choice=["abc def"], max_tokens=20))
    assert "".join(p.text for p in pieces) == "abc def" and pieces[-1].complete and any(p.forced for p in pieces)
    answer = llm.chat([{"role": "user", "content": "Hi"}], choice=["yes", "no"], max_tokens=20)
    assert answer.text in ("yes", "no") and answer.stop_reason in ("grammar", *llm.info.end_tokens)
    answer = llm.chat([{"role": "user", "content": "Hi"}], response_format={"type": "json_object"}, max_tokens=4)
    assert answer.text.lstrip().startswith("{") and answer.complete is not None
    free = llm.generate(PROMPT, response_format={"type": "text"}, max_tokens=2, seed=1)
    assert free.complete is None and free.tokens == llm.generate(PROMPT, max_tokens=2, seed=1).tokens
    params = lamina.SamplingParams(json_schema=Pet)
    assert params.grammar.matches('{"name": "Tom", "age": 3}')
    assert params.replace(regex="a").grammar == lamina.Grammar.from_regex("a")
    assert params.replace(grammar=None).grammar is None


def test_wrong_ways_are_refused(llm):
    for options, text in [
        ({"regex": "a", "choice": ["b"]}, "regex and choice"),
        ({"regex": "("}, "regex"),
        ({"grammar": 3}, "grammar"),
        ({"choice": "yes"}, "choice"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "yaml"),
        ({"response_format": {"type": "json_schema"}}, "schema"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs"),
        ({"json_schema": {"enum": []}}, "no text satisfies"),
    ]:
        with pytest.raises(lamina.InvalidRequestError, match=text):
            llm.generate(PROMPT, max_tokens=2, **options)
    with pytest.raises(lamina.UnsupportedError, match="uniqueItems"):
        llm.generate(PROMPT, json_schema={"uniqueItems": True})
    named = {"name": "x", "schema": {"type": "array", "uniqueItems": True}, "strict": False}
    lenient = lamina.SamplingParams(response_format={"type": "json_schema", "json_schema": named})
    assert "uniqueItems" in lenient.grammar.warnings[0]


def test_a_model_without_a_tokenizer_has_no_grammars(made_folder):
    with lamina.LLM(made_folder, progress=False) as llm, pytest.raises(lamina.InvalidRequestError, match="tokenizer"):
        llm.generate([1, 2], choice=["a"], max_tokens=1)


def test_a_matcher_of_ones_own(llm):
    matcher = lamina.Grammar.from_choice(["yes", "no, never"]).matcher(llm)
    mask = matcher.mask()
    assert mask.dtype == np.uint32 and mask.shape == (-(-llm.info.vocab // 32),)
    tokens = llm.tokenize("no, never")
    assert mask[tokens[0] // 32] >> (tokens[0] % 32) & 1 and matcher.allows(tokens[0])
    assert matcher.legal([*tokens, llm.info.end_tokens[0]]) == len(tokens) + 1
    fork = matcher.fork()
    for token in tokens:
        assert not matcher.finished
        matcher.accept(token)
    assert matcher.finished and matcher.accepting and not fork.accepting
    matcher.rollback(len(tokens))
    assert np.array_equal(matcher.mask(), mask) and np.array_equal(fork.mask(), mask)
    wrong = llm.tokenize("?")[0]
    with pytest.raises(lamina.InvalidRequestError, match="not allowed"):
        matcher.accept(wrong)
    assert llm.detokenize(lamina.Grammar.from_regex("forced text").matcher(llm).forced()).startswith("forced")


def leaf(rng):
    return rng.choice([
        {"type": "integer", "minimum": rng.randint(-30, 5), "maximum": rng.randint(5, 400)},
        {"type": "number", "minimum": 0, "maximum": rng.randint(1, 9)},
        {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(2, 8)},
        {"type": "string", "pattern": rng.choice(["^a+b?$", "^[ab]{1,3}$", "a", "^\\d{2}-\\w+$", "^(é|ü|ß){2}$"])},
        {"type": "string", "format": rng.choice(["date", "time", "date-time", "ipv4", "uuid", "email"])},
        {"enum": rng.sample([None, True, 3, -2.5, "a", "é", "\nb", "日本", [1], {"k": 1}, "two words"], 3)},
        {"const": rng.choice(["x", 12, "naïve", [], {}, {"a": "ö"}])},
        {"type": rng.sample(["null", "boolean", "integer"], 2), "multipleOf": rng.choice([1, 3, 10])},
        {"type": ["null", "boolean"]},
    ])  # fmt: skip


def random_schema(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return leaf(rng)
    inner = [random_schema(rng, depth - 1) for _ in range(3)]
    names = rng.sample(["a", "b", "name", "né", "x y", "deep"], 3)
    members = {
        "type": "object",
        "properties": dict(zip(names, inner)),
        "required": rng.sample(names, rng.randrange(4)),
        "additionalProperties": rng.choice([False, False, leaf(rng)]),
    }
    return rng.choice([
        {"type": "array", "items": inner[0], "minItems": rng.randint(0, 2), "maxItems": rng.randint(2, 4)},
        {"type": "array", "prefixItems": inner[:2], "items": rng.choice([False, inner[2]]), "maxItems": 3},
        {"anyOf": inner[:2]},
        {"oneOf": inner[:2]},
        {"allOf": [inner[0], {"type": rng.choice(["object", "integer", "string"])}]},
        {"not": leaf(rng), **inner[0]},
        {"if": inner[0], "then": inner[1], "else": inner[2]},
        {**members, "dependentRequired": {names[0]: [names[1]]}},
        {"type": "object", "patternProperties": {"^k[0-9]?$": inner[0]}, "additionalProperties": False},
        members,
        members,
    ])  # fmt: skip


def test_what_random_schemas_let_through_is_valid(llm):
    """Each is refused, has no text, or every answer that ends satisfies it."""
    jsonschema = pytest.importorskip("jsonschema")
    count = int(os.environ.get("LAMINA_FUZZ", "60"))
    rng, ended, refused = random.Random(11), 0, 0
    for number in range(count):
        schema = random_schema(rng, rng.randrange(4))
        try:
            grammar = lamina.Grammar.from_json_schema(schema, whitespace=rng.choice(["any", "compact"]))
        except lamina.UnsupportedError:
            refused += 1
            continue
        try:
            answer = llm.generate(PROMPT, grammar=grammar, temperature=1.5, max_tokens=80, seed=number)
        except lamina.InvalidRequestError as error:
            assert "no text satisfies" in str(error), schema
            continue
        assert answer.complete == grammar.matches(answer.text), (schema, answer.text)
        assert grammar.allows(text_of(answer)), (schema, answer.text)
        if answer.finish_reason == "stop":
            judge = judge_of(jsonschema, schema)
            judge.validate(json.loads(answer.text))
            ended += 1
        else:
            assert answer.stop_reason == "max_tokens"
    print(f"{count} schemas: {ended} answers ended, {refused} schemas were refused")
    assert ended > count * 0.3 and refused < count * 0.4
