"""`examples/ray/replicas.py` on a Ray of this machine: what is killed is started again, and its answers go on elsewhere."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import ray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import serving  # noqa: E402

KEY = "a key of tests that has thirty-two characters"
# A first start of Ray takes a minute and more on a busy machine.
PATIENCE = serving.START = 300
BODY = {"prompt": "Once upon a time", "seed": 1, "n": 4, "max_tokens": 300, "logprobs": 20, "stream": True, "temperature": 1,
        "ignore_eos": True}  # fmt: skip


def listed(server):
    return json.loads(server.get("/replicas")[1])


def wait(done):
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def stream(server, then=lambda: None):
    """The chunks of each choice; something happens after the first of them."""
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(BODY).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        text = response.read(100_000)
        then()
        text += response.read()
    events = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: {")]
    return [[event["choices"] for event in events if event["choices"][0]["index"] == i] for i in range(4)]


def test_ray_starts_replicas_again(monkeypatch):
    monkeypatch.setenv("LAMINA_APP_KEY", KEY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = "127.0.0.1:%d" % free.getsockname()[1]
    ray.init(num_cpus=4, include_dashboard=False)
    try:
        monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
        example = [sys.executable, ROOT / "examples" / "ray" / "replicas.py", place, "--replicas", "2"]
        with subprocess.Popen(example) as deploying, serving.Live("--replicas-join", place) as gateway:
            wait(lambda: len(listed(gateway)) == 2)
            assert deploying.wait(PATIENCE) == 0
            whole = stream(gateway)

            def kill():
                [busy] = [r for r in listed(gateway) if r["running"]]
                os.kill(busy["pid"], signal.SIGKILL)

            assert stream(gateway, kill) == whole
            wait(lambda: len(listed(gateway)) == 2)
            assert stream(gateway) == whole
    finally:
        ray.shutdown()
