"""`lamina.ray` on Ray itself: a cluster of this machine, which the test starts and ends. Engines are killed while they answer.

`LAMINA_KILLS` is the number of kills, one every five seconds."""

import contextlib
import dataclasses
import importlib.util
import json
import os
import random
import signal
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import lamina.ray
import pytest
import ray
from ray import serve

BY_DAY = Path(__file__).resolve().parents[1] / "python"
sys.path.insert(0, str(BY_DAY))
# By its path: a file beside this one may have the same name.
spec = importlib.util.spec_from_file_location("replicas_by_day", BY_DAY / "test_replicas.py")
by_day = importlib.util.module_from_spec(spec)
spec.loader.exec_module(by_day)
CASES, Clients, ask, check, moved, replicas, wait = (
    getattr(by_day, name) for name in ("CASES", "Clients", "ask", "check", "moved", "replicas", "wait"))

KILLS = int(os.environ.get("LAMINA_KILLS", "4"))
PORT = int(os.environ.get("LAMINA_RAY_PORT", "8000"))
PAUSE = 5.0
START = 300
# Those that need no adapter, no template and no drafts.
NAMES = [name for name in CASES if not any(word in name for word in ("adapter", "tools", "drafts", "shifted"))]


class Address:
    """What clients see of a service."""

    def __init__(self, url):
        self.url = url

    def request(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as response:
            return response.status, response.headers, response.read().decode()

    def get(self, path):
        status, _, text = self.request(path)
        return status, text


@pytest.fixture(scope="module")
def service():
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    config = lamina.ray.Config({"context": 512}, replicas=2)
    own = lamina.ray.deploy(config)
    here = SimpleNamespace(relay=Address(f"http://127.0.0.1:{PORT}"), own=Address(own), config=config)
    wait(lambda: len(replicas(here.own)) == 2, START)
    yield here
    serve.shutdown()
    ray.shutdown()


@pytest.fixture(scope="module")
def alone(service):
    """All answers of a service that nobody disturbs."""
    return {name: ask(service.own, name) for name in NAMES}


def test_rays_address_relays_every_answer(service, alone):
    for name in NAMES:
        assert ask(service.relay, name) == alone[name], name


def test_answers_go_on_where_engines_are_killed(service, alone):
    order, killed = random.Random(1), 0
    before = moved(service.own, "lost")
    with Clients(service.relay, alone, NAMES, 3) as clients:
        while killed < KILLS:
            time.sleep(PAUSE)
            up = [one for one in replicas(service.own) if one["state"] == "up"]
            if up:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(order.choice(up)["pid"], signal.SIGKILL)
                    killed += 1
    print(f"{killed} kills, {clients.answers} answers, {moved(service.own, 'lost') - before:.0f} moves, {len(clients.wrong)} wrong")
    check(clients)
    wait(lambda: len(replicas(service.own)) == 2, START)


def test_the_application_ends_with_its_processes(service):
    pids = [one["pid"] for one in replicas(service.own)]
    serve.delete(service.config.name)
    wait(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 90)


def test_prompts_are_computed_apart_from_answers(service, tmp_path):
    config = dataclasses.replace(service.config, serve={"context": 512, "cache_dir": str(tmp_path)}, replicas=1, prefill=1)
    own = Address(lamina.ray.deploy(config))
    wait(lambda: sorted(one["role"] for one in replicas(own)) == ["mixed", "prefill"], START)
    prompts = [f"{name} went to the park and saw a big dog. " * 20 for name in ("Lily", "Tom", "Ben", "Sue")]
    with lamina.LLM(context=512) as llm:
        expected = [out.text for out in llm.generate(prompts, max_tokens=100, temperature=0)]
    # While answers run that prompts would hold up, they are computed by the other engine.
    with ThreadPoolExecutor(len(prompts)) as pool:
        bodies = [{"prompt": prompt, "max_tokens": 100, "temperature": 0} for prompt in prompts]
        answers = list(pool.map(lambda body: own.request("/v1/completions", body), bodies))
    assert [json.loads(text)["choices"][0]["text"] for _, _, text in answers] == expected
    assert moved(own, "prefilled") >= 1
