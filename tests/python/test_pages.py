"""Pages that are made from lists are what the lists say, and the lists name what there is."""

import importlib.util
import inspect
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import lamina
import pytest

tomllib = pytest.importorskip("tomllib")

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted((ROOT / "docs" / "move").glob("*.toml"))


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(maker):
    return maker.pages()


def test_pages_are_what_their_lists_say(made):
    for name, text in made.items():
        assert (ROOT / "docs" / name).read_text() == text, f"python docs/pages.py writes {name}"
    assert {f"move/{path.stem}.md" for path in LISTS} < {*made}
    assert {*(ROOT / "docs" / "move").glob("*.md")} == {path.with_suffix(".md") for path in LISTS}


def test_wheels_have_manual_and_completions(maker, made, tmp_path):
    """Those of the command, and no other: in the folder that maturin takes, in the wheel of this clone, and where it is installed."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]
    folder = ROOT / settings["data"] / "data"
    assert maker.SHIPPED == folder / "share"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    made_here = {name.partition("/data/")[2] for name in made if name.startswith("../")}
    assert there == made_here and {"share/man/man1/lamina.1", "share/man/man1/lamina-serve.1"} < there
    subprocess.run([sys.executable, ROOT / "tests" / "in_place.py", tmp_path], check=True, capture_output=True)
    (wheel,) = tmp_path.rglob("*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    assert {name.partition(".data/data/")[2] for name in inside if ".data/" in name} == there
    installed = {file.as_posix().removeprefix("../" * file.as_posix().count("../")) for file in distribution("lamina").files}
    assert there <= installed, "install the package anew: bash tests/all does"
    for name in there:
        assert (Path(sys.prefix) / name).read_text() == (folder / name).read_text(), "install the package anew"


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
