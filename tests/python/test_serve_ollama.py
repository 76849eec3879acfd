"""Ollama's own client, unchanged, beside a live server."""

import json
import math
import shutil

import pytest
from conftest import PACKAGED
from serving import Live

ollama = pytest.importorskip("ollama")

pytestmark = pytest.mark.filterwarnings("default")
MESSAGES = [{"role": "user", "content": "Tell me a story."}]
GREEDY = {"model": "any:latest", "options": {"temperature": 0, "num_predict": 12, "num_thread": 2}}


@pytest.fixture(scope="module")
def client(server):
    with ollama.Client(host=server.url) as client:
        yield client


def test_chat(client):
    answer = client.chat(messages=MESSAGES, **GREEDY)
    assert answer.message.content and answer.done and answer.done_reason in ("stop", "length")
    assert answer.prompt_eval_count > 0 and 0 < answer.eval_count <= 12
    assert answer.total_duration >= answer.eval_duration >= 0
    pieces = list(client.chat(messages=MESSAGES, stream=True, **GREEDY))
    assert "".join(piece.message.content for piece in pieces) == answer.message.content
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_generate(client, server):
    answer = client.generate(prompt="Once upon a time", raw=True, **GREEDY)
    _, completion = server.post("/v1/completions", {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 12})
    assert answer.response == completion["choices"][0]["text"]
    pieces = list(client.generate(prompt="Once upon a time", raw=True, stream=True, **GREEDY))
    assert "".join(piece.response for piece in pieces) == answer.response
    assert client.generate(prompt="hello", system="Be brief.", **GREEDY).response


def test_lines_of_a_stream(server):
    _, headers, text = server.request("/api/chat", {"model": "any", "messages": MESSAGES, "options": {"num_predict": 4}})
    assert headers["content-type"] == "application/x-ndjson"
    assert all(line.startswith("{") and line.endswith("}") for line in text.strip().split("\n"))


def test_stop_and_logprobs(client):
    whole = client.generate(prompt="Once upon a time", raw=True, **GREEDY).response
    stop = whole.strip().split()[2]
    options = {**GREEDY["options"], "stop": [stop]}
    cut = client.generate(model="any", prompt="Once upon a time", raw=True, options=options)
    assert cut.response == whole[: whole.index(stop)] and cut.done_reason == "stop"
    told = client.generate(prompt="Once upon a time", raw=True, logprobs=True, top_logprobs=2, **GREEDY)
    assert told.logprobs and all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in told.logprobs)


def test_embeddings(client):
    answer = client.embed(model="any", input=["a dog", "a cat"])
    assert len(answer.embeddings) == 2 and answer.prompt_eval_count > 0
    assert math.isclose(math.hypot(*answer.embeddings[0]), 1.0, rel_tol=1e-4)
    assert len(client.embed(model="any", input="a dog", dimensions=8).embeddings[0]) == 8
    assert client.embeddings(model="any", prompt="a dog").embedding == pytest.approx(answer.embeddings[0], abs=1e-6)


def test_lists(client, server):
    model = client.list().models[0]
    assert model.model and model.details.family and model.size > 0
    running = client.ps().models[0]
    assert running.model == model.model and running.context_length > 0 and running.expires_at.year == 9999
    shown = client.show(model.model)
    assert shown.modelinfo["general.architecture"] == model.details.family and "completion" in shown.capabilities
    assert shown.details.quantization_level and f"{model.details.family}.context_length" in shown.modelinfo
    # Clients refuse servers that are older than what they need.
    version = json.loads(server.get("/api/version")[1])["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]


def test_models_that_are_not_in_memory_are_described(client, tmp_path):
    ollama = pytest.importorskip("ollama")
    shutil.copy(PACKAGED, tmp_path / "sleeping.gguf")
    with Live("--models-dir", tmp_path) as live, ollama.Client(host=live.url) as other:
        (model,) = other.list().models
        awake = client.list().models[0]
        assert model.model == "sleeping" and (model.size, model.digest) == (awake.size, awake.digest) and len(model.digest) == 64
        assert model.details == awake.details
        shown, known = other.show("sleeping"), client.show(awake.model)
        assert (shown.capabilities, shown.details) == (known.capabilities, known.details)
        numbers = {name: value for name, value in known.modelinfo.items() if name != "general.basename"}
        assert {name: value for name, value in shown.modelinfo.items() if name in numbers} == numbers
        assert not other.ps().models, "nothing was loaded for it"
        shutil.copy(PACKAGED, tmp_path / "later.gguf")
        assert other.show("later").capabilities == shown.capabilities
        assert {one.model for one in other.list().models} == {"sleeping", "later"}


def test_an_empty_prompt_loads(client):
    assert client.generate(model="any").done_reason == "load"
    assert client.chat(model="any", messages=[]).done_reason == "load"


@pytest.mark.parametrize(
    "path, fields, status, word",
    [
        ("/api/chat", {"options": {"temprature": 1}}, 400, "temperature"),
        ("/api/chat", {"options": {"num_ctx": 10**9}}, 400, "num_ctx"),
        ("/api/chat", {"options": {"num_predict": -7}}, 400, "num_predict"),
        ("/api/chat", {"truncate": True}, 400, "truncate"),
        ("/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["AAAA"]}]}, 400, "images"),
        ("/api/generate", {"messages": None, "prompt": "x", "template": "{{ .Prompt }}"}, 400, "template"),
        ("/api/generate", {"messages": None, "prompt": "x", "context": [1]}, 400, "context"),
        ("/api/pull", {"messages": None, "model": "hf:a/b"}, 501, "--allow-pull"),
        ("/api/create", {}, 501, "files"),
        ("/api/nothing", {}, 404, "path"),
    ],
)
def test_refused_fields_are_named(server, path, fields, status, word):
    body = {"model": "any", "messages": MESSAGES, **fields}
    found, answer = server.post(path, {name: value for name, value in body.items() if value is not None})
    assert found == status and word in answer["error"], answer
