"""`lamina run`, `chat` and `bench` as clients of a live server."""

import json
import os
import subprocess
import sys

import pytest

OWN = os.environ.get("LAMINA_TEST_COMMAND")
COMMAND = [OWN] if OWN else [sys.executable, "-m", "lamina"]
GREEDY = ["--temperature", "0", "--max-tokens", "12"]


def lamina(*arguments, **options):
    line = [*COMMAND, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, **options)


def test_run_says_the_same_as_a_model_of_its_own(server):
    local = lamina("run", *GREEDY, "Once upon a time")
    remote = lamina("run", *GREEDY, "--server", server.url, "Once upon a time")
    assert remote.returncode == 0, remote.stderr
    assert remote.stdout == local.stdout
    report = json.loads(lamina("run", *GREEDY, "--server", server.url, "--json", "Once upon a time").stdout)
    assert report["choices"][0]["text"].strip() == local.stdout.strip() and report["usage"]["prompt_tokens"] > 0


def test_chat_says_the_same_as_a_model_of_its_own(server):
    lines = "Tell me a story.\nAnd then?\n"
    local = lamina("chat", *GREEDY, input=lines)
    remote = lamina("chat", *GREEDY, "--server", server.url, input=lines)
    assert remote.returncode == 0, remote.stderr
    if "no chat template" not in local.stderr:
        assert remote.stdout == local.stdout


@pytest.mark.parametrize("pace", [["--clients", 3], ["--rate", 50], ["--rate", 50, "--arrivals", "fixed"]])
def test_bench_measures_a_load(server, pace):
    lengths = ["--prompt", "8,24", "--gen", "6", "--requests", "9", "--goal", "ttft=60000,tbt=60000"]
    done = lamina("bench", "--server", server.url, *lengths, *pace, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["failed"], report["completion_tokens"]) == (0, 54)
    assert 72 <= report["prompt_tokens"] <= 216 and report["goodput"]["share"] == 1
    assert 0 < report["ttft_ms"]["p50"] <= report["ttft_ms"]["p99"] <= report["e2e_ms"]["max"]


def test_a_server_that_is_not_there():
    done = lamina("run", "--server", "http://127.0.0.1:1", "hello")
    assert done.returncode == 1 and "cannot connect" in done.stderr and len(done.stderr.splitlines()) == 1
