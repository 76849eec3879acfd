"""Pages that are made from lists are what the lists say, and the lists name what there is."""

import importlib.util
import inspect

from pathlib import Path

import lamina
import pytest

tomllib = pytest.importorskip("tomllib")

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted((ROOT / "docs" / "move").glob("*.toml"))


@pytest.fixture(scope="module")
def made():
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_pages_are_what_their_lists_say(made):
    for name, text in made.items():
        assert (ROOT / "docs" / name).read_text() == text, f"python docs/pages.py writes {name}"
    assert {f"move/{path.stem}.md" for path in LISTS} < {*made}
    assert {*(ROOT / "docs" / "move").glob("*.md")} == {path.with_suffix(".md") for path in LISTS}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_lists_of_moving_name_what_there_is(path):
    told = tomllib.loads(path.read_text())
    for name in told["names"]:
        thing = lamina
        for part in name.split("."):
            thing = getattr(thing, part)
        shown = [told["after"], *(row["here"] for row in told["rows"])]
        assert any(name.split(".")[-1] in text for text in shown), f"{name} is shown nowhere"
    parameters = inspect.signature(lamina.LLM).parameters
    assert {*told["arguments"]} <= {*parameters}
    assert len(told["rows"]) >= 8 and len(told["missing"]) >= 2


def test_errors_have_an_advice(made):
    for name in dir(lamina):
        if name.endswith("Error"):
            assert f"`{name}`" in made["errors.md"]
