"""Conversations."""

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
