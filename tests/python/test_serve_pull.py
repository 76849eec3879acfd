"""Models that requests have a server fetch: Ollama's own client beside a server, which asks a hub on loopback."""

import json
import socket
import threading
import time

import pytest
from hub import Hub
from serving import Live
from test_hub import FILES, home, hub  # noqa: F401

ollama = pytest.importorskip("ollama")

NAME = "hf.co/org/model:Q4_0"
GREEDY = {"temperature": 0, "num_predict": 4}


@pytest.fixture
def live(hub):  # noqa: F811
    with Live("--allow-pull") as live:
        yield live


def names(client):
    return [model.model for model in client.list().models]


def test_a_model_is_pulled_asked_and_deleted(live, hub, home):  # noqa: F811
    with ollama.Client(host=live.url) as client:
        before = names(client)
        lines = list(client.pull(NAME, stream=True))
        assert lines[0].status == "pulling manifest" and lines[-1].status == "success"
        parts = [line for line in lines if line.total]
        assert parts and parts[-1].completed == parts[-1].total == len(FILES["tiny-Q4_0.gguf"])
        assert all(line.digest.startswith("sha256:") and len(line.digest) == 71 for line in parts)
        assert any("fits into memory" in line.status for line in lines)
        assert names(client) == [*before, NAME]
        assert client.show(NAME).details.quantization_level
        text = client.generate(model=NAME, prompt="Once upon a time", raw=True, options=GREEDY).response
        packaged = client.generate(model=before[0], prompt="Once upon a time", raw=True, options=GREEDY).response
        assert text == packaged
        asked = len(hub.bodies())
        assert client.pull(NAME).status == "success" and len(hub.bodies()) == asked, "it was here"
        assert client.delete(NAME).status == "success"
        assert names(client) == before and not list(home.glob("hub/models--org--model/blobs/*"))
        with pytest.raises(ollama.ResponseError, match="there is no model") as refused:
            client.generate(model=NAME, prompt="x")
        assert refused.value.status_code == 404
        with pytest.raises(ollama.ResponseError) as refused:
            client.delete(NAME)
        assert refused.value.status_code == 404


def test_what_was_fetched_before_is_offered_after_a_restart(hub):  # noqa: F811
    with Live("--allow-pull") as live, ollama.Client(host=live.url) as client:
        client.pull(NAME)
    with Live("--allow-pull") as live, ollama.Client(host=live.url) as client:
        assert "hf:org/model/tiny-Q4_0.gguf" in names(client)
        assert client.generate(model=NAME, prompt="Once", raw=True, options=GREEDY).response
        assert len(names(client)) == 2, "one model has one name"
    with Live() as live, ollama.Client(host=live.url) as client:
        assert len(names(client)) == 1, "only where it is allowed"


def test_loading_by_name_fetches(live, hub):  # noqa: F811
    assert live.post("/models/load", {"model": "hf:org/model"}) == (200, {"success": True})
    assert len(hub.bodies()) > 0
    status, answer = live.post("/v1/completions", {"model": "hf:org/model", "prompt": "Once", "max_tokens": 2})
    assert status == 200 and answer["model"] == "hf:org/model"


@pytest.mark.parametrize(
    "name, status, word",
    [
        ("llama3.2", 400, "no name of the hub"),
        ("ollama:llama3.2", 400, "no name of the hub"),
        ("https://127.0.0.1/a.gguf", 400, "no name of the hub"),
        ("hf:org/model:Q9", 400, "there are: tiny-Q4_0.gguf"),
        ("hf:..", 400, "names no model"),
        (None, 400, "model is missing"),
    ],
)
def test_refusals_are_told(live, name, status, word):
    found, answer = live.post("/api/pull", {"model": name, "stream": False})
    assert found == status and word in answer["error"], answer
    if name == "hf:org/model:Q9":
        _, _, text = live.request("/api/pull", {"model": name})
        assert word in json.loads(text.strip().split("\n")[-1])["error"], "an error is the last line of a stream"


def test_only_where_it_is_allowed_and_by_whom(hub):  # noqa: F811
    with Live() as live:
        for path, method in (("/api/pull", "POST"), ("/api/delete", "DELETE")):
            status, _, text = live.request(path, {"model": NAME}, method=method)
            assert status == 501 and "--allow-pull" in json.loads(text)["error"]
        assert live.post("/models/load", {"model": NAME})[0] == 200, "a lone model answers to any name"
    with Live("--allow-pull", "--api-key", "user", "--admin-key", "chief") as live:
        user, chief = ({"authorization": f"Bearer {key}"} for key in ("user", "chief"))
        for path, method in (("/api/pull", "POST"), ("/api/delete", "DELETE"), ("/models/load", "POST")):
            assert live.request(path, {"model": NAME}, method=method)[0] == 401
            status, _, text = live.request(path, {"model": NAME}, user, method=method)
            assert status == 403 and "--admin-key" in text, text
        assert not hub.asked
        assert live.post("/api/pull", {"model": NAME, "stream": False}, **chief) == (200, {"status": "success"})
        assert live.post("/v1/completions", {"model": NAME, "prompt": "Once", "max_tokens": 1}, **user)[0] == 200


def test_two_that_pull_the_same_join(home, monkeypatch):  # noqa: F811
    begun, go = threading.Event(), threading.Event()

    def slow():
        begun.set()
        go.wait(30)

    with Hub(FILES, slow) as hub:  # noqa: F811
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with Live("--allow-pull") as live:
            answers = []
            pull = lambda: answers.append(live.post("/api/pull", {"model": NAME, "stream": False}))  # noqa: E731
            threads = [threading.Thread(target=pull) for _ in range(3)]
            threads[0].start()
            assert begun.wait(30)
            for thread in threads[1:]:
                thread.start()
            status, _, text = live.request("/api/delete", {"model": NAME}, method="DELETE")
            assert status == 400 and "fetched just now" in text
            time.sleep(0.5)
            go.set()
            for thread in threads:
                thread.join(60)
            assert answers == [(200, {"status": "success"})] * 3
            # The beginning, by which it is judged, and the file.
            stored = [asked[2] for asked in hub.bodies() if asked[1].startswith("/store/")]
            assert stored == ["bytes=0-2097151", f"bytes=0-{len(FILES['tiny-Q4_0.gguf']) - 1}"]


def test_a_client_that_leaves_breaks_no_file(home, monkeypatch):  # noqa: F811
    begun, slow = threading.Event(), True

    def cut():
        begun.set()
        while slow:
            time.sleep(0.02)

    with Hub(FILES, cut) as hub:  # noqa: F811
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with Live("--allow-pull") as live:
            host, port = live.url.split("//")[1].split(":")
            body = json.dumps({"model": NAME}).encode()
            head = f"POST /api/pull HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            with socket.create_connection((host, int(port))) as lone:
                lone.sendall(head.encode() + body)
                told = b""
                while b"pulling manifest" not in told:
                    told += lone.recv(4096)
                assert begun.wait(30)
            # Nobody waits for it any more: it stops, and what is half has no name of a file.
            end = time.monotonic() + 30
            while live.request("/api/delete", {"model": NAME}, method="DELETE")[0] != 404:
                assert time.monotonic() < end
                time.sleep(0.1)
            assert not [p for p in home.glob("hub/models--org--model/blobs/*") if len(p.name) == 64]
            slow = False
            assert live.post("/api/pull", {"model": NAME, "stream": False}) == (200, {"status": "success"})
            (blob,) = home.glob("hub/models--org--model/blobs/*")
            assert blob.read_bytes() == FILES["tiny-Q4_0.gguf"]
