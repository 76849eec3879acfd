"""Pictures of commands' figures, and what a terminal shows of a server."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
from conftest import PACKAGED

COMMANDS = {
    "inspect": [],
    "plan": ["--batch", "1"],
    "bench": ["--prompt", "16", "--gen", "4", "--repeat", "1", "--threads", "1"],
    "perplexity": ["--file", "{text}", "--context", "32", "--threads", "1"],
    "imatrix": ["--file", "{text}", "--context", "32", "--threads", "1", "--output", "{folder}/matrix.gguf", "--force"],
}


def lamina(*arguments):
    own = os.environ.get("LAMINA_TEST_COMMAND")
    command = [own] if own else [sys.executable, "-m", "lamina"]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize("name", COMMANDS)
def test_figures_are_drawn(tmp_path, name):
    (tmp_path / "text").write_text("Once upon a time there was a little girl who liked to play outside. " * 8)
    places = {"text": str(tmp_path / "text"), "folder": str(tmp_path)}
    arguments = [argument.format(**places) for argument in COMMANDS[name]]
    for end in "svg", "html":
        picture = tmp_path / f"figures.{end}"
        done = lamina(name, PACKAGED, *arguments, "--plot", picture)
        assert done.returncode == 0, done.stderr
        text = picture.read_text(encoding="utf-8")
        assert "http://" not in text.replace("http://www.w3.org", "") and "<script" not in text
        drawing = text if end == "svg" else text[text.index("<svg") : text.rindex("</svg>") + 6]
        drawn = list(xml.fromstring(drawing).iter())
        assert len([mark for mark in drawn if mark.tag.endswith(("rect", "path"))]) > 1
        assert len([mark for mark in drawn if mark.tag.endswith("text")]) > 2
        names = [mark.get("aria-label") for mark in drawn if mark.get("role") == "img"]
        assert all(names) and len(set(names)) == len(names), names
    assert text.count("<tr>") > 2, "a page has the numbers"
    wrong = lamina(name, PACKAGED, *arguments, "--plot", tmp_path / "figures.png")
    assert wrong.returncode != 0 and ".svg or .html" in wrong.stderr


CURVES = {
    "plan": (["--context", "512"], ["MB of memory", "along tokens before it", "along answers at once"]),
    "bench": (
        ["--prompt", "16", "--gen", "4", "--repeat", "2", "--depth", "0,16,32", "--batch", "1,2,4", "--threads", "1"],
        ["tokens/s of a prompt, along tokens before it", "along tokens before them", "along answers at once; gold"],
    ),
}


@pytest.mark.parametrize("name", CURVES)
def test_speeds_are_curves(tmp_path, name):
    arguments, curves = CURVES[name]
    done = lamina(name, PACKAGED, *arguments, "--plot", tmp_path / "curves.html")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "curves.html").read_text(encoding="utf-8")
    assert text.count('role="img"') == 1 + len(curves)
    for curve in curves:
        assert f"{curve}" in text, curve
    # Each place of a curve is a row of numbers that fall or rise with it.
    rows = [[cell.split("<")[0] for cell in row.split("<td>")[1:]] for row in text.split("<tr>")]
    batch = [row for row in rows if row and row[0] in ("1", "2", "4")]
    assert len(batch) >= 3 and all(float(row[1]) > 0 for row in batch)


def test_a_terminal_shows_a_server(server):
    shown = lamina("top", server.url, "--once")
    assert shown.returncode == 0, shown.stderr
    assert "tokens/s out" in shown.stdout and "lamina-tiny" in shown.stdout and "\x1b" not in shown.stdout
    sample = json.loads(lamina("top", server.url, "--once", "--json").stdout)
    assert sample["models"][0]["state"] == "loaded" and sample["out"] is not None
    gone = lamina("top", "http://127.0.0.1:9", "--once")
    assert gone.returncode != 0 and "127.0.0.1:9" in gone.stderr
