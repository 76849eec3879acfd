"""Anthropic's own client, unchanged, beside a live server."""

import json

import pytest
from serving import events

anthropic = pytest.importorskip("anthropic")
from anthropic.types import Message, MessageTokensCount, ModelInfo, RawMessageStreamEvent  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
MESSAGES = [{"role": "user", "content": "Tell me a story."}]
# The client of today has no argument for the temperature, which the API still takes.
GREEDY = {"model": "any", "max_tokens": 12, "extra_body": {"temperature": 0}}


@pytest.fixture(scope="module")
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def test_messages(client):
    raw = client.messages.with_raw_response.create(messages=MESSAGES, **GREEDY)
    message = Message.model_validate_json(raw.http_response.text)
    assert message.id.startswith("msg_") and message.content[0].text
    assert message.stop_reason in ("end_turn", "max_tokens")
    usage = message.usage
    again = client.messages.create(messages=MESSAGES, **GREEDY)
    assert again.content[0].text == message.content[0].text
    total = usage.input_tokens + usage.cache_read_input_tokens
    assert again.usage.input_tokens + again.usage.cache_read_input_tokens == total
    counted = client.messages.with_raw_response.count_tokens(model="any", messages=MESSAGES)
    assert MessageTokensCount.model_validate_json(counted.http_response.text).input_tokens == total


def test_a_stream_adds_up_to_the_whole_message(client):
    whole = client.messages.create(messages=MESSAGES, **GREEDY)
    with client.messages.stream(messages=MESSAGES, **GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == whole.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


def test_events_are_named_and_in_order(server):
    body = {"model": "any", "max_tokens": 12, "temperature": 0, "messages": MESSAGES, "stream": True}
    status, headers, text = server.request("/v1/messages?beta=true", body)
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store" and headers["x-accel-buffering"] == "no"
    found = events(text)
    names = [name for name, _ in found]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) <= {"content_block_delta", "ping"}
    known = TypeAdapter(RawMessageStreamEvent)
    for name, data in found:
        assert json.loads(data)["type"] == name
        if name != "ping":
            known.validate_json(data)


def test_stop_sequences(client):
    whole = client.messages.create(messages=MESSAGES, **GREEDY).content[0].text
    stop = whole.strip().split()[2]
    message = client.messages.create(messages=MESSAGES, stop_sequences=["@@", stop], **GREEDY)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.content[0].text == whole[: whole.index(stop)]


def test_blocks_systems_and_begun_answers(client):
    text = client.messages.create(messages=MESSAGES, **GREEDY).content[0].text
    blocks = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story.", "cache_control": {"type": "ephemeral"}}]}]
    assert client.messages.create(messages=blocks, **GREEDY).content[0].text == text
    system = client.messages.create(messages=MESSAGES, system="You are brief.", **GREEDY)
    assert system.usage.input_tokens + system.usage.cache_read_input_tokens > 0
    begun = client.messages.create(messages=[*MESSAGES, {"role": "assistant", "content": "Once"}], **GREEDY)
    assert begun.usage.output_tokens > 0


def test_thinking_is_a_variable_of_the_template(client):
    for thinking in ({"type": "disabled"}, {"type": "adaptive"}):
        assert client.messages.create(messages=MESSAGES, thinking=thinking, **GREEDY).content


def test_models(client):
    model = client.models.list().data[0]
    assert ModelInfo.model_validate(model.model_dump()).type == "model"
    assert client.models.retrieve(model.id).id == model.id


@pytest.mark.parametrize(
    "fields, word",
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"top_p": 2}}, "top_p"),
        ({"extra_body": {"temprature": 1}}, "temperature"),
        ({"extra_body": {"mcp_servers": []}}, "mcp_servers"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0]"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
        ({"thinking": {"type": "often"}}, "thinking.type"),
    ],
)
def test_refused_fields_are_named(client, fields, word):
    with pytest.raises(anthropic.BadRequestError) as refusal:
        client.messages.create(**{"messages": MESSAGES, **GREEDY, **fields})
    body = refusal.value.body
    assert body["type"] == "error" and body["error"]["type"] == "invalid_request_error"
    assert word in body["error"]["message"] and body["request_id"]


def test_a_missing_field(server):
    status, body = server.post("/v1/messages", {"model": "any", "messages": MESSAGES})
    assert status == 400 and "max_tokens is missing" in body["error"]["message"]
    status, body = server.post("/v1/messages/nothing", {})
    assert status == 404 and body["error"]["type"] == "not_found_error"


def test_harmless_fields_are_named_in_a_header(client):
    raw = client.messages.with_raw_response.create(messages=MESSAGES, metadata={"user_id": "me"}, service_tier="auto", **GREEDY)
    assert {"metadata", "service_tier"} <= set(raw.headers["x-lamina-ignored"].replace(" ", "").split(","))
    assert raw.headers["request-id"]
