"""Requests as programs of others send them (`editors.py`), and answers in the form that they read."""

import json
import struct

import pytest
from conftest import PACKAGED
from editors import MODEL, SENT
from serving import Live, events
from test_serve_tools import TEMPLATE

COUNTS = {"prompt_eval_count", "eval_count", "total_duration", "load_duration", "prompt_eval_duration", "eval_duration"}
DETAILS = {"format", "family", "families", "parameter_size", "quantization_level"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Most of these programs set no limit: the server does."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "template.jinja").write_text(TEMPLATE)
    write_model(folder / "lamina-tiny.gguf")
    with Live("--context", "2048", "--max-tokens", "12", "--chat-template", folder / "template.jinja", model=folder / "lamina-tiny.gguf") as live:
        yield live


def write_model(path):
    """The packaged model, whose file names tokens around a gap. Entries of metadata move nothing else: they fill units of alignment."""
    file = PACKAGED.read_bytes()
    key = lambda name: struct.pack("<Q", len(name)) + name.encode()  # noqa: E731
    marks = (("fim_pre", 400), ("fim_suf", 401), ("fim_mid", 402), ("fim_sep", 403))
    ids = b"".join(key(f"tokenizer.ggml.{name}_token_id") + struct.pack("<II", 4, id) for name, id in marks)
    filler = key("test.filler") + struct.pack("<I", 8)
    length = 256 - (len(ids) + len(filler) + 8) % 256
    filler += struct.pack("<Q", length) + b"x" * length
    entries = struct.unpack("<Q", file[16:24])[0] + 5
    path.write_bytes(file[:16] + struct.pack("<Q", entries) + ids + filler + file[24:])


def ndjson(text):
    return [json.loads(line) for line in text.splitlines()]


def chat_lines(headers, text):
    lines = ndjson(text)
    assert headers["content-type"] == "application/x-ndjson" and len(lines) > 1
    assert all(line["message"]["role"] == "assistant" and isinstance(line["message"]["content"], str) for line in lines)
    assert all(line["model"] == MODEL and line["created_at"] for line in lines)
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert COUNTS <= {*lines[-1]} and lines[-1]["done_reason"] in ("stop", "length")


def chat(_, text):
    answer = json.loads(text)
    assert answer["message"]["role"] == "assistant" and answer["done"] and COUNTS <= {*answer}
    for call in answer["message"].get("tool_calls", []):
        assert isinstance(call["function"]["arguments"], dict)


def generate_lines(_, text):
    lines = ndjson(text)
    assert all(isinstance(line["response"], str) for line in lines) and lines[-1]["done"] and COUNTS <= {*lines[-1]}


def generate(_, text):
    assert isinstance(json.loads(text)["response"], str)


def tags(_, text):
    (model,) = json.loads(text)["models"]
    assert model["name"] == model["model"] == MODEL and model["size"] > 0 and DETAILS <= {*model["details"]}
    assert model.get("modified_at") or model["expires_at"]


def show(_, text):
    answer = json.loads(text)
    family = answer["model_info"]["general.architecture"]
    assert answer["model_info"][f"{family}.context_length"] > 0 and answer["model_info"]["general.basename"]
    assert "completion" in answer["capabilities"] and "tools" in answer["capabilities"] and answer["details"]["family"] == family
    assert isinstance(answer["template"], str) and isinstance(answer.get("parameters", ""), str)


def version(_, text):
    assert [int(part) for part in json.loads(text)["version"].split(".")] >= [0, 6, 4]


def models(_, text):
    answer = json.loads(text)
    assert answer["object"] == "list" and answer["data"][0]["id"] == "lamina-tiny" and answer["data"][0]["object"] == "model"


def chunks(headers, text):
    found = [data for _, data in events(text)]
    assert headers["content-type"].startswith("text/event-stream") and found[-1] == "[DONE]"
    rows = [json.loads(data) for data in found[:-1]]
    assert {row["object"] for row in rows} == {"chat.completion.chunk"} and len({row["id"] for row in rows}) == 1
    deltas = [choice["delta"] for row in rows for choice in row["choices"]]
    assert deltas[0]["role"] == "assistant" and any(delta.get("content") for delta in deltas)
    ends = [choice["finish_reason"] for row in rows for choice in row["choices"] if choice["finish_reason"]]
    assert len(ends) == 1 and ends[0] in ("stop", "length", "tool_calls")


def completion(_, text):
    (choice,) = json.loads(text)["choices"]
    assert choice["message"]["role"] == "assistant" and choice["message"]["content"]


def completion_events(_, text):
    rows = [json.loads(data) for _, data in events(text)]
    assert all(isinstance(row["content"], str) for row in rows) and [row["stop"] for row in rows][-2:] == [False, True]


def embed(_, text):
    answer = json.loads(text)
    assert len(answer["embeddings"]) == 2 and answer["prompt_eval_count"] > 0


def infill(_, text):
    answer = json.loads(text)
    assert isinstance(answer["content"], str) and answer["truncated"] is False
    assert answer.get("timings/predicted_n") or answer["timings"]["predicted_n"]


def message_events(_, text):
    found = events(text)
    assert all(json.loads(data)["type"] == name for name, data in found)
    names = [name for name, _ in found if name != "ping"]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    start = json.loads(found[0][1])["message"]
    assert start["usage"]["input_tokens"] > 0 and start["role"] == "assistant"


def count(_, text):
    assert json.loads(text)["input_tokens"] > 0


def response_events(_, text):
    found = events(text)
    names = [name for name, _ in found]
    assert names[0] == "response.created" and "response.output_text.delta" in names
    assert names[-1] in ("response.completed", "response.incomplete")
    last = json.loads(found[-1][1])["response"]
    assert last["usage"]["total_tokens"] > 0 and last["output"][0]["type"] == "message"


def anything(*_):
    """What is thrown away."""


@pytest.mark.parametrize("sent", SENT, ids=lambda sent: f"{sent.who} {sent.path}")
def test_what_is_sent_is_answered(server, sent):
    status, headers, text = server.request(sent.path, sent.body, sent.headers)
    assert status == 200, text
    globals()[sent.answer.replace(" ", "_")](headers, text)


def test_a_context_that_is_not_there_is_named(server):
    """Cline asks for 32,768 tokens whatever the model has."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}], "options": {"num_ctx": 32768}}
    status, answer = server.post("/api/chat", body)
    assert status == 400 and "num_ctx is 32768" in answer["error"] and "2048" in answer["error"]


def test_code_ends_before_a_line_that_stands_less_far_to_the_right(server):
    body = {"prompt": "x", "grammar": 'root ::= "if a:\\n    b\\nc" [d-e]*', "n_indent": 4, "n_predict": 500}
    status, answer = server.post("/completion", body)
    assert (status, answer["content"], answer["stop_type"]) == (200, "if a:\n    b", "limit")
    assert answer["tokens_predicted"] < 100
    _, _, text = server.request("/completion", {**body, "stream": True})
    assert "".join(json.loads(data)["content"] for _, data in events(text)) == answer["content"]
