"""Models and texts of the tests: in `LAMINA_SHARED` or `../shared`, and where those are missing the model inside the package."""

import json
import os
import re
import signal
import struct
from pathlib import Path

import lamina
import numpy as np
import pytest
from browser import PICTURES, Browser, find
from serving import Live

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("LAMINA_SHARED") or ROOT.parent / "shared")
PACKAGED = ROOT / "python" / "lamina" / "models" / "lamina-tiny.gguf"


def pytest_collection_modifyitems(config, items):
    """Sockets, processes and clocks: a machine that is busy elsewhere makes one late. What failed once is named (RERUN), as
    nextest does it."""
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    for item in items:
        names = vars(item.module)
        if "Live" in names or "serving" in names or {"server", "cluster"} & {*item.fixturenames}:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def shared():
    if not SHARED.is_dir():
        pytest.skip(f"models and texts are not there: {SHARED} is no folder (set LAMINA_SHARED)")
    return SHARED


@pytest.fixture(scope="session")
def server():
    """A server of the model inside the package, which the tests of all clients share."""
    with Live() as live:
        yield live


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for the tests of one page."""
    program = find()
    if program is None:
        pytest.skip("no browser was found: install chromium, or name one in LAMINA_TEST_BROWSER")
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def heed_ctrl_c():
    """For `preexec_fn`: what a shell starts in the background ignores Ctrl-C, and so would the processes of the tests."""
    return lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def made_folder(tmp_path_factory):
    """A Hugging Face folder of a tiny Llama with random weights and no tokenizer, as `crates/fixtures` describes it."""
    family = json.loads((ROOT / "crates" / "fixtures" / "families" / "llama.json").read_text())
    header, data, random = {}, b"", np.random.default_rng(1)
    for pattern, shape, mean, deviation in family["tensors"]:
        range_ = re.search(r"\{(\d+)-(\d+)\}", pattern)
        numbers = range(int(range_[1]), int(range_[2]) + 1) if range_ else [0]
        for name in (re.sub(r"\{.*?\}", str(n), pattern) for n in numbers):
            values = random.normal(mean, deviation, shape).astype("<f4").tobytes()
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    folder = tmp_path_factory.mktemp("llama")
    (folder / "config.json").write_text(json.dumps(family["config"]))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


@pytest.fixture(scope="session")
def stories_folder(shared):
    return shared / "models" / "stories260k"


@pytest.fixture(scope="session")
def stories_gguf():
    """A trained model as GGUF: of 260,000 parameters with 512 tokens, or the one inside the package."""
    file = SHARED / "models" / "stories260k" / "stories260k-f32.gguf"
    return file if file.is_file() else PACKAGED


@pytest.fixture(scope="session")
def stories(stories_gguf):
    """A trained model with a context of 512 tokens; most tests ask it."""
    path = stories_gguf if stories_gguf == PACKAGED else stories_gguf.parent
    with lamina.LLM(path, context=512, progress=False) as llm:
        yield llm


@pytest.fixture(scope="session")
def long_stories(stories_gguf):
    """The same with room for requests that take seconds."""
    with lamina.LLM(stories_gguf, context=60_000, progress=False) as llm:
        yield llm


@pytest.fixture(scope="session")
def wordless(made_folder):
    """A model without a tokenizer: one that sorts digits, or one with random weights."""
    trained = SHARED / "models" / "gpt-nano-sort"
    with lamina.LLM(trained if trained.is_dir() else made_folder, progress=False) as llm:
        yield llm
