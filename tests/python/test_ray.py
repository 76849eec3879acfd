"""`lamina.ray` without Ray: its file, its plan, its errors, and the processes that its actors own."""

import asyncio
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import lamina
import lamina.ray
import pytest
from lamina.ray import command, gateway, scaling, work
from lamina.ray.process import OwnedProcess

FILE = """
port = 9000
api_key = ["a secret"]
max_running = 8
temperature = 0.5

[models.tiny]
path = "tiny.gguf"
context = 512
alias = ["small"]

[models.hub]
path = "qwen3:0.6b"

[ray]
replicas = [1, 4]
cpus = 2
listen = "0.0.0.0:8443"
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "tiny.gguf").touch()
    path = tmp_path / "serve.toml"
    path.write_text(FILE)
    return path


def test_what_it_says_to_install_can_be_installed():
    assert "ray" in importlib.metadata.metadata("lamina").get_all("Provides-Extra")


def test_a_file_says_what_gateway_and_engines_do(file):
    tomllib = pytest.importorskip("tomllib")
    config = lamina.ray.Config.read(file)
    assert (config.range, config.cpus, config.listen) == ((1, 4), 2, "0.0.0.0:8443")
    assert config.models == {"tiny": str(file.parent / "tiny.gguf"), "hub": "qwen3:0.6b"}
    front, engine = (tomllib.loads(text) for text in (config.gateway_file(), config.engine_file()))
    assert front == {"port": 9000, "api_key": ["a secret"], "max_running": 8, "temperature": 0.5}
    assert engine.pop("models")["tiny"] == {"path": str(file.parent / "tiny.gguf"), "context": 512, "alias": ["small"]}
    assert engine == {"max_running": 8, "temperature": 0.5, "threads": 2}, "an engine has no keys of callers"


def test_texts_are_written_as_they_are_read():
    tomllib = pytest.importorskip("tomllib")
    odd = 'a "quoted" \\ text\n\t\x00\x7f – 🙂'
    config = lamina.ray.Config({"chat_template": odd, "models": {"a b.c": {"path": odd, "context": 1}}, "min_p": 1e-7})
    assert tomllib.loads(config.engine_file()) == {**config.serve, "threads": 1}


@pytest.mark.parametrize("table, told", [
    ({"replica": 2}, "ray.replica does not exist; the nearest known one is `replicas`"),
    ({"serve": {}}, "ray.serve does not exist"),
    ({"replicas": 0}, "ray.replicas takes a number of 1 to 64"),
    ({"replicas": [3, 2]}, "ray.replicas takes"),
    ({"replicas": True}, "ray.replicas takes"),
    ({"prefill": -1}, "ray.prefill takes a number of 0 to 63"),
    ({"prefill": 1}, "ray.prefill needs a cache_dir that every node sees"),
    ({"prefill": 1, "replicas": 64}, "are more than 64 together"),
    ({"cpus": "2"}, "ray.cpus takes a number above 0, but '2' was given"),
    ({"listen": "8443:"}, "ray.listen takes HOST:PORT"),
    ({"target": 0}, "ray.target takes seconds above 0"),
    ([], "ray must be a table"),
])  # fmt: skip
def test_what_is_wrong_is_named(table, told):
    with pytest.raises(lamina.InvalidRequestError) as error:
        lamina.ray.Config.of({"ray": table})
    assert told in str(error.value)


def test_a_file_that_is_none_is_named(tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("port =")
    for path in (tmp_path / "none.toml", broken):
        with pytest.raises(lamina.InvalidRequestError, match=path.name):
            lamina.ray.Config.read(path)


def test_a_plan_starts_nothing(file, capsys):
    assert command.main([str(file), "--plan", "--name", "other"]) == 0
    told = capsys.readouterr().out
    assert "application other" in told and "1 to 4, each with 2 CPU" in told and "8 CPU at most" in told
    assert "qwen3:0.6b" in told and "0.0.0.0:8443" in told and "no keys" not in told and "a secret" not in told
    apart = lamina.ray.Config({"cache_dir": "/cache"}, replicas=2, prefill=1, cpus=4)
    assert "prefill  1 more" in lamina.ray.plan(apart) and "12 CPU at most" in lamina.ray.plan(apart)
    assert command.main(["--plan", "--replicas", "2"]) == 0
    assert "the model inside the package" in capsys.readouterr().out
    assert command.main([str(file.parent / "none.toml"), "--plan"]) == 2


def test_the_command_has_it(file):
    line = [sys.executable, "-m", "lamina", "deploy", str(file), "--plan"]
    run = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and run.stdout == lamina.ray.plan(lamina.ray.Config.read(file)) + "\n"


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")
def test_without_ray_it_says_what_to_install(file, capsys):
    for name in ("app", "build_app", "deploy"):
        with pytest.raises(lamina.UnsupportedError, match=r'pip install "lamina\[ray\]"'):
            getattr(lamina.ray, name)
    with pytest.raises(AttributeError):
        lamina.ray.nothing
    assert command.main([str(file)]) == 1
    assert "lamina[ray]" in capsys.readouterr().err


def metrics(running, waiting, busy, ended):
    return (f'# HELP lamina:num_requests_running Sequences that run\nlamina:num_requests_running{{model_name="a"}} {running}\n'
            f'lamina:num_requests_waiting{{model_name="a"}} {waiting}\nlamina:step_seconds_sum{{kind="b"}} {busy}\n'
            f'lamina:request_success_total{{finished_reason="stop"}} {ended}\n')  # fmt: skip


def test_work_is_told_in_seconds():
    meter = work.WorkMeter()
    assert meter.seconds([], 0) == 0
    assert meter.seconds([metrics(1, 3, 0, 0)], 1) == 4, "a second each, before anything has ended"
    assert meter.seconds([metrics(2, 0, 30, 10), metrics(0, 2, 10, 10)], 5) == 4 * 40 / 20
    assert meter.seconds([metrics(1, 0, 60, 21)], 200) == 1 * 20 / 1, "requests of late are longer"
    assert meter.seconds([metrics(1, 0, 5, 4)], 201) == 20, "an engine has left with its numbers"


def test_engines_are_as_many_as_the_work_wants():
    policy = scaling.BySeconds(2.0)
    context = SimpleNamespace(
        aggregated_metrics={"work": {"a": 7.5, "b": 9.0}}, target_num_replicas=3, capacity_adjusted_min_replicas=1,
        capacity_adjusted_max_replicas=8)  # fmt: skip
    assert policy(context) == (5, {})
    context.aggregated_metrics = {}
    assert policy(context) == (3, {}), "without numbers nothing changes"
    assert [scaling.wanted(work, 2.0, 1, 4) for work in (0, 2, 2.1, 100)] == [1, 1, 2, 4]


def test_the_key_that_may_see_the_replicas(tmp_path, monkeypatch):
    monkeypatch.delenv("LAMINA_API_KEY", raising=False)
    keys = tmp_path / "keys"
    keys.write_text("# of the house\none ann share=2\ntwo bob admin=yes\n")
    assert gateway.admin_key({}) is None
    assert gateway.admin_key({"api_key": "lone"}) == "lone"
    assert gateway.admin_key({"api_keys": ["a", "b"]}) is None
    assert gateway.admin_key({"api_key": ["a"], "admin_key": "c"}) == "c"
    assert gateway.admin_key({"api_key_file": str(keys)}) == "two"


def test_a_process_that_ends_says_why():
    process = OwnedProcess("no_such_option = 1\n", ["--port", "0"], {})
    with pytest.raises(lamina.LaminaError, match="no_such_option"):
        process.said("listening on")
    with pytest.raises(lamina.LaminaError, match="has ended"):
        process.check()
    process.end()


def test_the_page_shows_a_file_and_a_service():
    tomllib = pytest.importorskip("tomllib")
    page = (Path(__file__).resolve().parents[2] / "docs" / "ray.md").read_text()
    shown = next(text for text in re.findall(r"^```text\n(.*?)^```", page, flags=re.M | re.S) if "\n[ray]\n" in text)
    config = lamina.ray.Config.of(tomllib.loads(shown))
    assert config.range == (1, 8) and config.models == {"chat": "/models/chat.gguf"} and config.has_keys
    keys = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `")))
    assert keys == [field.name for field in dataclasses.fields(config) if field.name != "serve"]
    yaml = pytest.importorskip("yaml", reason="a reader of YAML comes with Ray")
    service = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", page, flags=re.M | re.S)[1])
    [application] = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    assert application["import_path"] == "lamina.ray:app" and application["args"] == {"config": "/models/serve.toml"}
    for group in [service["spec"]["rayClusterConfig"]["headGroupSpec"], *service["spec"]["rayClusterConfig"]["workerGroupSpecs"]]:
        spec = group["template"]["spec"]
        assert spec["containers"][0]["volumeMounts"][0]["name"] == spec["volumes"][0]["name"]


@pytest.fixture
def cluster(monkeypatch):
    """A gateway and two engines, as the actors own them."""
    monkeypatch.setattr(gateway, "_own_address", lambda: "127.0.0.1")
    config = lamina.ray.Config({"context": 512})
    front = gateway.Gateway(config, "k" * 64)
    address, key = front.door()
    engines = [engine(config, address, key) for _ in range(2)]
    yield SimpleNamespace(front=front, engines=engines, config=config, url=front.url(), address=address, key=key)
    for process in [*engines, front._process]:
        process.end(1)


def engine(config, address, key):
    return OwnedProcess(config.engine_file(), ["--gateway", address], {"LAMINA_APP_KEY": key})


def replicas(url):
    with urllib.request.urlopen(url + "/replicas", timeout=60) as response:
        return json.load(response)


def wait(done, seconds=120, pause=0.05):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(pause)


def test_an_answer_outlives_the_engine_that_made_it(cluster):
    wait(lambda: len(replicas(cluster.url)) == 2)
    body = json.dumps({"prompt": "Once upon a time", "seed": 3, "temperature": 1, "max_tokens": 400, "ignore_eos": True}).encode()
    request = urllib.request.Request(cluster.url + "/v1/completions", body, {"content-type": "application/json"})
    texts = []

    def ask():
        with urllib.request.urlopen(request, timeout=120) as response:
            texts.append(json.load(response)["choices"][0]["text"])

    ask()
    # Enough of them that a fast machine is still busy when it is looked at.
    asking = [threading.Thread(target=ask) for _ in range(24)]
    [one.start() for one in asking]
    found = []
    wait(lambda: found.extend(one["pid"] for one in replicas(cluster.url) if one["running"]) or found, pause=0.005)
    busy = found[0]
    os.kill(busy, signal.SIGKILL)
    [one.join() for one in asking]
    assert texts == texts[:1] * 25
    [dead] = [process for process in cluster.engines if process.pid == busy]
    with pytest.raises(lamina.LaminaError, match="has ended with -9"):
        dead.said("never")
    wait(lambda: len(replicas(cluster.url)) == 1)
    # What Ray does then.
    cluster.engines.append(engine(cluster.config, cluster.address, cluster.key))
    wait(lambda: len(replicas(cluster.url)) == 2)


@pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="aiohttp comes with Ray")
def test_work_of_engines_is_measured(cluster):
    wait(lambda: len(replicas(cluster.url)) == 2)
    assert asyncio.run(cluster.front.work()) == 0
