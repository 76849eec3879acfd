"""Replicas that join a gateway: processes that somebody else has started."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from serving import Live

KEY = "a key of tests that has thirty-two characters"
BODY = {"prompt": "Once upon a time", "seed": 1, "n": 4, "max_tokens": 300, "logprobs": 20, "stream": True, "temperature": 1,
        "ignore_eos": True}  # fmt: skip


@pytest.fixture
def place(monkeypatch):
    """Where replicas join; the gateway is not there yet."""
    monkeypatch.setenv("LAMINA_APP_KEY", KEY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % free.getsockname()[1]


@contextlib.contextmanager
def replica(place, **environment):
    own = os.environ.get("LAMINA_TEST_COMMAND")
    line = [*([own] if own else [sys.executable, "-m", "lamina"]), "serve", "--threads", "1", "--exit-with-parent"]
    environment = {**os.environ, "LAMINA_GATEWAY": place, **environment}
    with subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def listed(server, count):
    end = time.monotonic() + 60
    while len(found := json.loads(server.get("/replicas")[1])) != count:
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def stream(server, then=lambda: None):
    """The chunks of each choice; something happens after the first of them."""
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(BODY).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        text = response.read(100_000)
        then()
        text += response.read()
    events = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")]
    return [[event["choices"] for event in events if event["choices"][0]["index"] == i] for i in range(4)]


def test_an_answer_goes_on_where_its_process_is_killed(place):
    with replica(place) as one, replica(place, LAMINA_REPLICA_HOST="localhost") as two, Live("--replicas-join", place) as gateway:
        assert {r["pid"] for r in listed(gateway, 2)} == {one.pid, two.pid}
        whole = stream(gateway)

        def kill():
            [busy] = [r for r in listed(gateway, 2) if r["running"]]
            os.kill(busy["pid"], signal.SIGKILL)

        assert stream(gateway, kill) == whole and len(listed(gateway, 1)) == 1
        with replica(place):
            pids = {r["id"]: r["pid"] for r in listed(gateway, 2)}
            assert gateway.get("/replicas/1/metrics")[0] == 200
            [left] = [process for process in (one, two) if process.pid in pids.values()]
            [number] = [i for i, pid in pids.items() if pid == left.pid]
            # One that is let go ends by itself.
            assert gateway.request(f"/replicas/{number}", {})[0] == 200
            assert left.wait(60) == 0
            assert stream(gateway) == whole


def test_a_replica_ends_with_the_program_that_started_it(place):
    with replica(place) as one, Live("--replicas-join", place) as gateway:
        listed(gateway, 1)
        one.stdin.close()
        assert one.wait(60) == 0
        listed(gateway, 0)


def test_another_key_is_refused_by_its_name(place):
    with replica(place), Live("--replicas-join", place), replica(place, LAMINA_APP_KEY=KEY[::-1]) as stranger:
        assert stranger.wait(60) == 1
        assert "is not joined: the gateway has another key" in stranger.stderr.read()
    with replica(place, LAMINA_APP_KEY="") as without:
        assert without.wait(60) == 1 and "openssl rand -hex 32" in without.stderr.read()
