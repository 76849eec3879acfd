"""Models by name, from a hub on loopback; the hub's own client is the judge of what lies in the cache."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import lamina
import pytest
from hub import COMMIT, Hub
from serving import Live

from conftest import PACKAGED

FILES = {"tiny-Q4_0.gguf": PACKAGED.read_bytes(), "README.md": b"a model of stories\n"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "hf"


@pytest.fixture
def hub(home, monkeypatch):
    with Hub(FILES) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


def command(*words):
    own = os.environ.get("LAMINA_TEST_COMMAND")
    return [*([own] if own else [sys.executable, "-m", "lamina"]), *map(str, words)]


def run(*words, **options):
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=120, **options)


def judge(home, code):
    """What a program with the hub's own client prints: it reads its settings once, when it is imported."""
    pytest.importorskip("huggingface_hub", reason="the hub's own client is not installed: pip install huggingface_hub")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_model_that_was_never_here_answers_by_one_call(hub):
    told = []
    with lamina.LLM("hf:org/model", progress=lambda done, total: told.append((done, total))) as llm:
        text = llm.generate("Once upon a time", max_tokens=8, temperature=0).text
        with lamina.LLM() as packaged:
            assert text == packaged.generate("Once upon a time", max_tokens=8, temperature=0).text
    assert told and all(done <= total for done, total in told)
    before = len(hub.bodies())
    with lamina.LLM("hf:org/model:q4_0", draft="hf:org/model") as llm:
        assert llm.generate("Once upon a time", max_tokens=8, temperature=0).text == text
    assert len(hub.bodies()) == before, "it was here"


def test_the_hubs_own_client_finds_what_was_fetched_here(hub, home):
    done = run("pull", "hf:org/model", "--json")
    path = json.loads(done.stdout)["path"]
    before = len(hub.bodies())
    same = "from huggingface_hub import hf_hub_download as get; print(get('org/model', 'tiny-Q4_0.gguf'))"
    assert judge(home, same) == path
    assert len(hub.bodies()) == before, "nothing is fetched twice"
    scan = "from huggingface_hub import scan_cache_dir as scan; c = scan(); print(len(c.warnings), c.size_on_disk, *c.warnings)"
    assert judge(home, scan) == f"0 {len(FILES['tiny-Q4_0.gguf'])}"


def test_what_the_hubs_own_client_fetched_is_found_here(hub, home):
    path = judge(home, "from huggingface_hub import hf_hub_download as get; print(get('org/model', 'tiny-Q4_0.gguf'))")
    before = len(hub.bodies())
    assert json.loads(run("pull", "hf:org/model", "--json", "--verify").stdout) == {
        "name": "hf:org/model",
        "path": path,
        "damaged": [],
    }
    assert len(hub.bodies()) == before, "nothing is fetched twice"
    assert judge(home, "from huggingface_hub import scan_cache_dir as scan; print(*scan().warnings)") == ""


def test_a_folder_is_fetched_and_loaded(home, monkeypatch, made_folder):
    files = {path.name: path.read_bytes() for path in made_folder.iterdir()}
    with Hub({**files, "pytorch_model.bin": b"x" * 2000}) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with lamina.LLM("hf:org/model", progress=False) as llm:
            assert llm.generate([1, 2, 3], max_tokens=2, ignore_eos=True).tokens
        assert not any(path.endswith(".bin") for _, path, _ in hub.asked)


def test_killed_twenty_times_it_still_ends_right(home, monkeypatch):
    chance = random.Random(1)
    data = chance.randbytes(20_000_000)

    def slow():
        time.sleep(0.02)
        return chance.randrange(400_000)

    with Hub({"large.gguf": b"GGUF" + data}, slow) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        for _ in range(20):
            process = subprocess.Popen(command("pull", "hf:org/model"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.2, 0.6))
            process.send_signal(signal.SIGKILL)
            process.wait()
            whole = [p for p in home.glob("hub/models--org--model/blobs/*") if len(p.name) == 64]
            assert all(p.read_bytes() == b"GGUF" + data for p in whole)
        hub.cut = lambda: None
        done = run("pull", "hf:org/model", "--json", "--verify")
        assert json.loads(done.stdout)["damaged"] == [], done.stderr
        path = home / "hub/models--org--model/snapshots" / COMMIT / "large.gguf"
        assert path.read_bytes() == b"GGUF" + data
        assert len(list(path.resolve().parent.iterdir())) == 1, "nothing is left beside it"


def test_ctrl_c_ends_fetching_and_keeps_what_arrived(home, monkeypatch, heed_ctrl_c):
    def never():
        time.sleep(60)

    with Hub({"large.gguf": b"x" * 5000}, never) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        process = subprocess.Popen(command("pull", "hf:org/model"), stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c)
        end = time.monotonic() + 60
        while not hub.bodies() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130 and "what has arrived is kept" in told


def test_a_server_is_started_with_a_name(hub):
    with Live("hf:org/model:Q4_0") as server:
        status, _, text = server.request("/v1/models")
        assert status == 200 and json.loads(text)["data"][0]["id"] == "model:Q4_0"


def test_a_server_answers_to_the_name_that_was_typed(hub):
    """Beside another model: one that is alone answers to any name."""
    with Live("hf:org/model:Q4_0", f"other={PACKAGED}") as server:
        for name, want in (("hf:org/model:Q4_0", 200), ("model:Q4_0", 200), ("other", 200), ("hf:org/model", 404)):
            status, _, text = server.request("/v1/completions", {"model": name, "prompt": "Once", "max_tokens": 1})
            assert status == want, (name, text)


def test_a_list_of_nothing_says_how_to_get_a_model(hub):
    done = run("list")
    assert done.returncode == 0 and "`lamina pull NAME` fetches one" in done.stderr
    assert json.loads(run("list", "--json").stdout) == {"models": []}
    assert run("pull", "hf:org/model").returncode == 0
    assert "fetches one" not in run("list").stderr


def test_offline_fetches_nothing_and_says_how(hub):
    with pytest.raises(lamina.ModelError, match="hf:org/model is not on this machine, and nothing is fetched.*`lamina pull hf:org/model`"):
        lamina.LLM("hf:org/model", offline=True)
    done = run("inspect", "hf:org/model", "--offline")
    assert done.returncode == 1 and "`lamina pull hf:org/model` fetches it" in done.stderr
    assert not hub.asked
    assert run("pull", "hf:org/model").returncode == 0
    asked = len(hub.asked)
    with lamina.LLM("hf:org/model", offline=True, progress=False) as llm:
        assert llm.generate("Once", max_tokens=1).tokens
    done = run("run", "hf:org/model:q4_0", "Once upon a time", "-n", "2", "--offline")
    assert done.returncode == 0 and "offline was asked for: what was fetched before is used" in done.stderr
    assert "fits" in json.loads(run("plan", "hf:org/model", "--offline", "--json").stdout)
    done = run("serve", "hf:org/other", "--offline", "--port", "0")
    assert done.returncode == 1 and "hf:org/other is not on this machine" in done.stderr
    assert run("search", "words", env={**os.environ, "HF_HUB_OFFLINE": "1"}).returncode == 1
    assert len(hub.asked) == asked, "nobody was asked"


def test_whether_it_fits_is_said_before_by_what_decides_it_later(home, monkeypatch, made_folder):
    """A GGUF file by its header, a folder by its configuration and the headers of its weights."""
    with Hub(FILES) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        told = json.loads(run("pull", "hf:org/model", "--dry-run", "--json").stdout)
        assert re.fullmatch(r"fits into memory: \S+ \S+ of weights and cache with \d+ tokens of context(, cut from \d+)?", told["fit"]), told
        assert not list(home.glob("hub/models--org--model/blobs/*")), "nothing was kept"
        ranges = [asked[2] for asked in hub.bodies()]
        assert ranges and all(asked == "bytes=0-2097151" for asked in ranges), ranges
        done = run("pull", "hf:org/model")
        assert f"; {told['fit']}\n" in done.stderr, done.stderr
        context = lamina.plan("hf:org/model", offline=True).context
        assert f"with {context} tokens" in told["fit"]


def test_a_terminal_does_not_show_a_token(hub, home):
    pty = pytest.importorskip("pty")
    hub.user, shown = "ann", b""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command("login"), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    while b"what you type is not shown" not in shown:
        shown += os.read(ours, 4096)
    # The line is asked for once the terminal has been told to show nothing.
    time.sleep(1)
    os.write(ours, b"hf_never_to_be_seen\n")
    while b"logged in as ann" not in shown:
        shown += os.read(ours, 4096)
    assert child.wait(60) == 0 and b"never" not in shown
    os.close(ours)
    assert (home / "token").read_text() == "hf_never_to_be_seen"


def test_errors_say_what_to_do(hub):
    with pytest.raises(lamina.ModelError, match="no GGUF file's name ends in Q9; there are: tiny-Q4_0.gguf"):
        lamina.LLM("hf:org/model:Q9")
    with pytest.raises(lamina.ModelError, match="did you mean hf:org/model"):
        lamina.LLM("org/model")
    with pytest.raises(lamina.InvalidRequestError, match="names no model"):
        lamina.LLM("hf:..")
