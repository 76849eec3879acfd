"""Documentation: links lead somewhere, and every block of every page is run or has a reason.

Blocks of `python` run as they are, those of clients against a server; lines of `sh` blocks that call `lamina` or `curl` run in
a folder with models, a text (`text.txt`), tools (`tools.json`), requests (`requests.jsonl`) and a Hugging Face folder (`folder`).
Files of settings are read.
"""

import configparser
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import Live

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
ADDRESS = "http://127.0.0.1:8080"
MODEL = ROOT / "python" / "lamina" / "models" / "lamina-tiny.gguf"


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(page):
    """Names of the headings, as they stand behind `#` in links."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def called(page):
    return str(page.relative_to(ROOT).with_suffix("")).replace("docs/", "", 1)


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}: no such heading"


# Made from lists, to be searched and not read.
LISTS = ("docs/cli.md", "docs/serving-fields.md")


@pytest.mark.parametrize("page", [page for page in PAGES if ROOT / "docs" in page.parents], ids=called)
def test_pages_are_short_enough_to_be_read(page):
    lines = len(page.read_text().splitlines())
    assert lines <= 200 or str(page.relative_to(ROOT)) in LISTS, f"{page.name} has {lines} lines: divide it"


def blocks(language):
    for page in PAGES:
        found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S)
        yield from (pytest.param(text, id=f"{called(page)}-{i}") for i, text in enumerate(found))


# Why blocks are not run. Languages that are neither here nor below are a block that nobody runs.
REASONS = {
    "": "commands of the repository itself: CI runs them, or names them where they are run by hand",
    "text": "what is shown: output, and programs for another engine or another library",
    "c": "`crates/capi` compiles and runs the examples",
    "nginx": "`test_examples.py` runs it where nginx is installed",
    "yaml": "`tests/ray` reads it as Ray does, `test_ray.py` where there is a reader",
}
RUN = {"python", "sh", "toml", "ini", "dockerfile"}
# First words of lines of `sh` blocks that no test here runs.
NO_LINES = {"docker": "no builder is at hand: the container file is checked below"}


def test_every_block_has_a_runner_or_a_reason():
    assert len(REASONS) + len(NO_LINES) <= 10
    for page in PAGES:
        fences = re.findall(r"^```(.*)$", page.read_text(), flags=re.M)[::2]
        assert {*fences} <= RUN | {*REASONS}, page.name
    for block in blocks("sh"):
        for words in lines(block.values[0]):
            assert words[0] in {"lamina", "curl", *NO_LINES}, (block.id, words)


def lines(block):
    """Lines of a shell's block as words."""
    split = (shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines())
    return [words for words in split if words]


# What asks a hub or a store of models: `test_hub.py` runs these against one on loopback.
NAMES = ("hf:", "ollama:", "lmstudio:", "https:")
HUB = ("pull", "rm", "search", "login", "logout")


def asks_a_hub(words):
    return words[1] in HUB or any(word.startswith(NAMES) for word in words)


def commands(serves=False):
    """Lines that call `lamina` and no hub, each once, with what a test is called by; apart those that start a server."""
    found = {}
    for block in blocks("sh"):
        for words in lines(block.values[0]):
            if words[0] == "lamina" and (words[1] == "serve") == serves and not asks_a_hub(words):
                found.setdefault(tuple(words), pytest.param(words[1:], id=" ".join(words[:2])))
    yield from found.values()


def requests():
    for block in blocks("sh"):
        yield from (pytest.param(words, id=block.id) for words in lines(block.values[0]) if words[0] == "curl")


@pytest.fixture(scope="module")
def place(tmp_path_factory, made_folder):
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(made_folder, folder / "folder")
    for name in ("model", "big", "coder"):
        shutil.copy(MODEL, folder / f"{name}.gguf")
    (folder / "models").mkdir()
    shutil.copy(MODEL, folder / "models")
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"]}
    (folder / "answer.json").write_text(json.dumps(schema))
    (folder / "keys").write_text("secret alice\n")
    (folder / "serve.toml").write_text(settings(folder))
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    (folder / "tools.json").write_text(json.dumps([tool]))
    request = {"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "Once upon a time", "max_tokens": 4}}
    (folder / "requests.jsonl").write_text(json.dumps(request))
    (folder / "text.txt").write_text("Once upon a time there was a little girl. She liked to play. " * 50)
    return folder


@pytest.fixture(scope="module")
def recording_server():
    with Live("--debug-trace", "--admin-key", "KEY") as live:
        yield live


def run(arguments, place):
    out = subprocess.run([sys.executable, *arguments], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    return out.stdout


def settings(folder):
    """The file of settings that the pages show, with the paths of this machine."""
    (shown,) = [block.values[0] for block in blocks("toml")]
    return (
        shown.replace("/etc/lamina/keys", str(folder / "keys"))
        .replace("/var/lib/lamina/chat.gguf", str(folder / "model.gguf"))
        .replace('host = "0.0.0.0"\nport = 8080', 'host = "127.0.0.1"\nport = 0')
        .replace("context = 16384", "context = 512")
    )


# Programs of recipes are files, and run there.
RECIPES = [path.read_text().strip() for path in ROOT.glob("examples/cookbook/*.py")]


@pytest.mark.parametrize("text", [block for block in blocks("python") if block.values[0].strip() not in RECIPES])
def test_python_blocks_run(text, place, server):
    for client in ("openai", "anthropic", "ollama"):
        if f"from {client} " in text and importlib.util.find_spec(client) is None:
            pytest.skip(f"{client} is not installed")
    assert run(["-c", text.replace(ADDRESS, server.url)], place).strip() or ADDRESS in text, "prints nothing"


@pytest.mark.parametrize("words", list(commands()))
def test_commands_run(words, place, server):
    run(["-m", "lamina", *(word.replace(ADDRESS, server.url) for word in words)], place)


@pytest.mark.parametrize("words", list(requests()))
def test_requests_are_answered(words, place, server, request):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    if "authorization: Bearer KEY" in words:
        server = request.getfixturevalue("recording_server")
    words = [word.replace(ADDRESS, server.url) for word in words]
    out = subprocess.run([*words, "--fail-with-body", "-sS"], cwd=place, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.parametrize("words", list(commands(serves=True)))
def test_servers_start(words, place, heed_ctrl_c):
    if not (place / "small.gguf").exists():
        shutil.copy(MODEL, place / "small.gguf")
    port = ["--port", "0"] if "--config" not in words else []
    given = words[: words.index("--port")] + words[words.index("--port") + 2 :] if "--port" in words else words
    line = [sys.executable, "-m", "lamina", *given, *port]
    with subprocess.Popen(line, cwd=place, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c) as server:
        heard, end = "", time.monotonic() + 60
        for told in server.stderr:
            heard += told
            if "listening on" in told or time.monotonic() > end:
                break
        server.terminate()
        assert "listening on" in heard, heard
        server.stderr.read()
    assert server.returncode == 0, heard


@pytest.mark.parametrize("text", list(blocks("ini")))
def test_units_are_read(text):
    unit = configparser.ConfigParser(strict=True)
    unit.optionxform = str
    unit.read_string(text)
    program = shlex.split(unit["Service"]["ExecStart"])
    assert program[1:3] == ["serve", "--config"] and unit["Service"]["ExecReload"].endswith("$MAINPID")


def container():
    """Instructions of the container file of the page, and the words of each."""
    text = re.search(r"^```dockerfile\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    lines = text[1].replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def test_the_container_file_is_sound():
    """No builder is at hand: what it copies, installs, checks and starts must be there."""
    known = {"FROM", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
    found = dict(container())
    assert set(found) <= known and container()[0][0] == "FROM"
    version = re.search(r"python:3\.(\d+)", found["FROM"])
    oldest = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert int(version[1]) >= int(oldest[1])
    source, folder = found["COPY"].split()
    assert source == "lamina-*.whl" and f"{folder}{source}" in found["RUN"], "what is installed is what was copied"
    assert f"useradd {found['USER']}" in found["RUN"], "the user is made before it is used"
    entry = json.loads(found["ENTRYPOINT"])
    assert re.search(rf'^{entry[0]} = "lamina', (ROOT / "pyproject.toml").read_text(), flags=re.M), "a script of the wheel"
    help = run(["-m", "lamina", *entry[1:2], "--help"], ROOT)
    assert all(word in help for word in entry if word.startswith("--"))
    port = found["EXPOSE"]
    assert f"[default: {port}]" in help or f"default: {port}" in help
    check = re.search(rf"http://127\.0\.0\.1:{port}(/\w+)", found["HEALTHCHECK"])
    front = (ROOT / "crates/serve/src/server/front.rs").read_text()
    assert f'"{check[1]}"' in re.search(r"const PUBLIC.*?;", front, flags=re.S)[0], "answers without a key"
    code = re.search(r'python -c "(.*)"$', found["HEALTHCHECK"])[1]
    compile(code, "HEALTHCHECK", "exec")
