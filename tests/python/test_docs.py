"""Documentation: links lead somewhere, and what can be run does run.

Blocks of `python` run as they are, and lines of `sh` blocks that call `lamina`, in a folder with a model (`model.gguf`), a
text (`text.txt`), tools (`tools.json`) and a Hugging Face folder (`folder`).
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])
MODEL = ROOT / "python" / "lamina" / "models" / "lamina-tiny.gguf"


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(page):
    """Names of the headings, as they stand behind `#` in links."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}: no such heading"


def blocks(language):
    for page in PAGES:
        found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S)
        yield from (pytest.param(text, id=f"{page.stem}-{i}") for i, text in enumerate(found))


# What asks a hub or a store of models: `test_hub.py` runs these against one on loopback.
NAMES = ("hf:", "ollama:", "lmstudio:", "https:")
HUB = ("pull", "rm", "search", "login", "logout")


def asks_a_hub(words):
    return words[1] in HUB or any(word.startswith(NAMES) for word in words)


def commands():
    for block in blocks("sh"):
        for line in block.values[0].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            # A server runs until it is stopped, and its clients need one: tests of their own start both.
            if words[:1] == ["lamina"] and words[1] != "serve" and "--server" not in words and not asks_a_hub(words):
                yield pytest.param(words[1:], id=" ".join(words[:2]))


@pytest.fixture(scope="module")
def place(tmp_path_factory, made_folder):
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(made_folder, folder / "folder")
    shutil.copy(MODEL, folder / "model.gguf")
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    (folder / "tools.json").write_text(json.dumps([tool]))
    (folder / "text.txt").write_text("Once upon a time there was a little girl. She liked to play. " * 100)
    return folder


def run(arguments, place):
    out = subprocess.run([sys.executable, *arguments], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    return out.stdout


# Blocks of clients need the server that the page starts in another terminal.
@pytest.mark.parametrize("text", [block for block in blocks("python") if "OpenAI(" not in block.values[0]])
def test_python_blocks_run(text, place):
    assert run(["-c", text], place).strip(), "prints nothing"


@pytest.mark.parametrize("words", list(commands()))
def test_commands_run(words, place):
    run(["-m", "lamina", *words], place)


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
