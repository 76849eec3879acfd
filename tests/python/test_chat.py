"""Conversations."""

import json

import lamina
import pytest

HELLO = [{"role": "user", "content": "Hello"}]


def test_template(stories):
    text = stories.apply_chat_template(HELLO)
    assert "Hello" in text
    assert stories.apply_chat_template(HELLO, add_generation_prompt=False) != text
    mine = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ extra }}"
    assert stories.apply_chat_template(HELLO, chat_template=mine, extra="!") == "<user>Hello!"


def test_answers(stories):
    out = stories.chat(HELLO, max_tokens=12, temperature=0)
    ids = stories.tokenize(stories.apply_chat_template(HELLO), special=True)
    assert out.tokens == stories.generate(ids, max_tokens=12, temperature=0).tokens
    assert out.message == {"role": "assistant", "content": out.text}
    assert out.tool_calls == [] and out.reasoning is None and out.warnings == []
    pieces = list(stories.chat(HELLO, stream=True, max_tokens=12, temperature=0))
    assert "".join(p.text for p in pieces) == out.text
    more = stories.chat([*HELLO, out.message, {"role": "user", "content": "And?"}], max_tokens=4)
    assert more.usage.prompt_tokens > out.usage.prompt_tokens


def test_template_variables_and_tools(stories):
    mine = "{{ tools | length if tools else 0 }}{{ flavour }}"
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    assert stories.apply_chat_template(HELLO, tools=[tool], chat_template=mine, flavour="x") == "1x"
    out = stories.chat(HELLO, chat_template=mine, chat_template_kwargs={"flavour": "ab"}, max_tokens=1)
    assert out.usage.prompt_tokens == len(stories.tokenize("0ab", special=True))


def test_response_format(stories):
    assert stories.chat(HELLO, response_format={"type": "text"}, max_tokens=1).tokens
    with pytest.raises(lamina.InvalidRequestError, match="yaml"):
        stories.chat(HELLO, response_format={"type": "yaml"})


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "empty"),
        ("Hello", "list of dicts"),
        (["Hello"], "list of dicts"),
        (None, "list of dicts"),
        ([{"role": "user", "content": object()}], "JSON"),
        ([{"role": "user", "content": float("nan")}], "JSON"),
        ([{"role": "user", "content": "\ud800"}], "messages"),
    ],
)
def test_refusals(stories, messages, message):
    with pytest.raises(lamina.InvalidRequestError, match=message):
        stories.chat(messages, max_tokens=1)
    with pytest.raises(lamina.InvalidRequestError, match=message):
        stories.apply_chat_template(messages)


def test_more_refusals(stories):
    with pytest.raises(lamina.InvalidRequestError, match="echo"):
        stories.chat(HELLO, echo=True)
    with pytest.raises(lamina.InvalidRequestError, match="tools"):
        stories.chat(HELLO, tools="f")
    with pytest.raises(lamina.InvalidRequestError, match="never again"):
        stories.chat(HELLO, chat_template="{{ raise_exception('never again') }}")
    with pytest.raises(lamina.InvalidRequestError, match="line 1"):
        stories.chat(HELLO, chat_template="{% for %}")


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"enum": [1, 22, 3]}, "wind": {"type": "boolean"}},
                "required": ["city", "wind"],
                "additionalProperties": False,
            },
        },
    },
    # Nothing without an end: a model of stories writes numbers and members until it is cut.
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "additionalProperties": False}}},
]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ tools | length if tools else 0 }} tools\nassistant: "
CALLS = dict(tools=TOOLS, chat_template=TEMPLATE, max_tokens=300, temperature=1.2)
FORMATS = [name for name in lamina.chat.formats() if name != "none"]


def are_valid(calls):
    for call in calls:
        arguments = call.json()
        if call.name == "get_weather":
            assert arguments["city"] in ("Rome", "Oslo") and isinstance(arguments["wind"], bool), arguments
            assert isinstance(arguments.get("days", 0), (int, float)) and set(arguments) <= {"city", "days", "wind"}
        else:
            assert call.name == "now"


@pytest.mark.parametrize("chat_format", FORMATS)
def test_calls_that_are_required_are_valid(stories, chat_format):
    out = stories.chat(HELLO, tool_choice="required", chat_format=chat_format, seed=3, parallel_tool_calls=False, **CALLS)
    if out.finish_reason == "length":
        assert len(out.tool_calls) <= 1  # a number or a thought without an end
        return
    assert (out.finish_reason, len(out.tool_calls)) == ("tool_calls", 1), out
    are_valid(out.tool_calls)
    assert out.message["tool_calls"][0]["function"]["name"] == out.tool_calls[0].name
    assert out.message["content"] is None and out.warnings == []


@pytest.mark.parametrize("chat_format", ["hermes", "qwen3-coder", "pythonic", "mistral"])
def test_a_named_tool_is_called(stories, chat_format):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    for seed in range(3):
        out = stories.chat(HELLO, tool_choice=choice, chat_format=chat_format, seed=seed, **CALLS)
        if out.finish_reason == "tool_calls":
            assert [call.name for call in out.tool_calls] == ["get_weather"]
            are_valid(out.tool_calls)
    again = stories.chat(HELLO, tool_choice="get_weather", chat_format=chat_format, seed=2, **CALLS)
    assert again.tokens == out.tokens


def test_pieces_of_calls_make_the_whole(stories):
    for seed, chat_format in enumerate(["hermes", "qwen3-coder", "glm-4.5", "pythonic"]):
        asked = dict(tool_choice="required", chat_format=chat_format, seed=seed, n=2, **CALLS)
        whole = stories.chat(HELLO, **asked)
        pieces = list(stories.chat(HELLO, stream=True, **asked))
        for answer in whole.completions:
            own = [piece for piece in pieces if piece.index == answer.index]
            deltas = [delta for piece in own for delta in piece.tool_calls]
            named = [(delta.index, delta.name) for delta in deltas if delta.name is not None]
            assert named == [(i, call.name) for i, call in enumerate(answer.tool_calls)]
            for i, call in enumerate(answer.tool_calls):
                assert "".join(d.arguments or "" for d in deltas if d.index == i) == call.arguments
            assert "".join(piece.text for piece in own) == answer.text
            assert own[-1].finish_reason == answer.finish_reason


def test_an_answer_of_a_form_or_a_call(stories):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": [{"ok": True}, {"ok": False}]}}}
    ended = 0
    for seed in range(4):
        out = stories.chat(HELLO, response_format=form, chat_format="hermes", seed=seed, **CALLS)
        if out.finish_reason == "length":
            continue  # calls without an end: the last one is cut
        ended += 1
        are_valid(out.tool_calls)
        assert out.tool_calls or json.loads(out.text)["ok"] in (True, False)
    assert ended
    none = stories.chat(HELLO, response_format=form, tool_choice="none", chat_format="hermes", seed=1, **CALLS)
    assert json.loads(none.text)["ok"] in (True, False) and none.tool_calls == []
    assert none.usage.prompt_tokens == len(stories.tokenize("user: Hello\n0 tools\nassistant: ", special=True))


def test_reasoning_ends_with_its_budget(stories):
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}{{ enable_thinking }}<think>\n"
    asked = dict(chat_template=template, max_tokens=60, temperature=0)
    free = stories.chat(HELLO, reasoning=True, **asked)
    assert free.reasoning and not free.text, "a model of stories never closes a thought"
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}}
    for reasoning in (5, {"budget": 5}, {"budget": 5, "end_text": " Well."}):
        out = stories.chat(HELLO, reasoning=reasoning, response_format=form, **asked)
        thought = stories.tokenize(out.reasoning)
        assert json.loads(out.text) in ("yes", "no") and 0 < len(thought) < 20, out
        assert out.tokens[:5] == free.tokens[:5]
        assert isinstance(reasoning, int) or "end_text" not in reasoning or out.reasoning.endswith("Well.")
    off = stories.chat(HELLO, reasoning=False, response_format=form, **asked)
    assert off.reasoning is None and json.loads(off.text) in ("yes", "no")
    pieces = list(stories.chat(HELLO, reasoning=5, response_format=form, stream=True, **asked))
    assert json.loads("".join(p.text for p in pieces)) in ("yes", "no") and any(p.reasoning for p in pieces)


def test_a_conversation_goes_on_after_a_call(stories):
    asked = dict(tool_choice="now", chat_format="hermes", seed=1, **CALLS)
    out = stories.chat(HELLO, **asked)
    result = {"role": "tool", "tool_call_id": out.tool_calls[0].id, "content": "noon"}
    assert out.tool_calls[0].json() == {}
    assert stories.chat([*HELLO, out.message, result], max_tokens=3).tokens


def test_answers_are_taken_apart_without_a_model():
    text = 'Hm.<tool_call>\n{"name": "now", "arguments": {"at": [1]}}\n</tool_call>'
    message = lamina.chat.parse(text, "hermes")
    assert (message.content, message.reasoning, message.tool_calls[0].json()) == ("Hm.", None, {"at": [1]})
    assert message.to_dict()["tool_calls"][0]["function"] == {"name": "now", "arguments": '{"at": [1]}'}
    parser = lamina.chat.Parser("hermes")
    deltas = [delta for c in text for delta in parser.push(c)] + parser.finish()
    assert "".join(d.content or "" for d in deltas) == "Hm." and deltas[-1].complete
    thought = lamina.chat.parse("so</think>\nyes", "hermes", thinking=True)
    assert (thought.reasoning, thought.content) == ("so", "yes")
    cut = lamina.chat.parse('<tool_call>{"name": "now", "arguments": {"a', "hermes").tool_calls[0]
    assert (cut.name, cut.complete) == ("now", False)
    assert lamina.chat.format_of("[TOOL_CALLS] [ARGS]") == "mistral-args" and len(FORMATS) >= 38
    assert lamina.chat.format_of("{{ messages }}") == "none"


def test_a_call_that_cannot_be_had_is_refused(stories):
    with pytest.raises(lamina.InvalidRequestError, match="later"):
        stories.chat(HELLO, tool_choice="later", chat_format="hermes", **CALLS)
    with pytest.raises(lamina.InvalidRequestError, match="no tools"):
        stories.chat(HELLO, tool_choice="required", chat_format="hermes")
    with pytest.raises(lamina.InvalidRequestError, match="writes none"):
        stories.chat(HELLO, tool_choice="required", chat_format="none", **CALLS)
    with pytest.raises(lamina.InvalidRequestError, match="tool_choice"):
        stories.chat(HELLO, tool_choice={"type": "web_search"}, **CALLS)
    with pytest.raises(lamina.InvalidRequestError, match="chat format"):
        stories.chat(HELLO, chat_format="hermez", **CALLS)
    with pytest.raises(lamina.InvalidRequestError, match="budget"):
        stories.chat(HELLO, reasoning={"tokens": 5})
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}}}
    loose = {"type": "function", "function": {"name": "f", "parameters": schema}}
    asked = dict(chat_template=TEMPLATE, chat_format="hermes", max_tokens=4)
    assert "uniqueItems" in stories.chat(HELLO, tools=[loose], **asked).warnings[0]
    strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}
    with pytest.raises(lamina.InvalidRequestError, match="uniqueItems"):
        stories.chat(HELLO, tools=[strict], **asked)
