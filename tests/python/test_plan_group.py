"""What a forecast says of memory against the peak of a server that uses all of it, in memory groups (cgroups)."""

import json
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lamina.builtin as builtin
import pytest
import serving

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))
from memory_group import memory_group  # noqa: E402

MB = 1_000_000
# Sequences of full length that the cache has room for.
SEQUENCES = 8
TINY = str(builtin.path())
# Limits in MB, and options.
CASES = [(150, ["--context", "256"]), (150, ["--context", "256", "--draft", TINY]), (60, ["--context", "1024"])]


def forecast(group, options):
    own = os.environ.get("LAMINA_TEST_COMMAND")
    command = [own] if own else [sys.executable, "-m", "lamina"]
    line = [*command, "plan", TINY, "--json", *options]
    done = subprocess.run(line, capture_output=True, text=True, preexec_fn=group.enter, check=True)
    return json.loads(done.stdout)


def fill(server, context):
    """Prompts that fill the cache, with logits of all of their rows."""

    def one(seed):
        numbers = random.Random(seed)
        prompt = [numbers.randrange(10, 250) for _ in range(context - 12)]
        body = {"prompt": prompt, "max_tokens": 8, "echo": True, "logprobs": 1, "ignore_eos": True}
        return server.post("/v1/completions", body)[0]

    with ThreadPoolExecutor(SEQUENCES) as pool:
        assert set(pool.map(one, range(SEQUENCES))) == {200}


def peak(server):
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) * 1024


@pytest.mark.parametrize("limit, options", CASES)
def test_memory_is_what_a_forecast_says(limit, options, monkeypatch):
    with memory_group(limit * MB) as group:
        if group is None:
            pytest.skip("no memory group can be made here")
        told = forecast(group, options)
        monkeypatch.setattr(serving, "heed_signals", group.enter)
        with serving.Live("--quiet", "--threads", "2", *options, model=TINY) as server:
            fill(server, told["context"])
            most = peak(server)
    total = told["memory"]["total"]
    assert total <= told["memory"]["budget"] + MB
    assert abs(total - most) <= (0.1 * most if most > 500 * MB else 15 * MB), (total, most, told["memory"])
