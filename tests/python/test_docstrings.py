"""Every public object says what it is and what each of its arguments means, in the style that the site is made from."""

import inspect
from pathlib import Path

import griffe
import lamina
import pytest

ROOT = Path(lamina.__file__).parent

# Whoever uses these gets them from a method, and never calls the class.
MADE = {"AsyncStream", "Grammar", "Matcher", "Stream", "Trace"}
# Their list is Rust's: `help(lamina.SamplingParams)` and docs/sampling.md have what it says of each.
LISTED = {"SamplingParams"}


@pytest.fixture(scope="module")
def package():
    return griffe.load("lamina", search_paths=[str(ROOT.parent)], docstring_parser="google")


def members(thing, path):
    """A public object, and those inside of it."""
    yield path, thing
    if not (thing.is_class or thing.is_module):
        return
    for name, member in thing.members.items():
        hidden = name.startswith("_") and name != "__init__"
        imported = member.is_alias and thing.is_module
        own = name == "__init__" and (path.rsplit(".")[-1] in MADE or "dataclass" in thing.labels)
        if not (hidden or imported or own):
            yield from members(member.final_target if member.is_alias else member, f"{path}.{name}")


def public(package):
    for name in lamina.__all__:
        if name != "__version__":
            thing = package[name]
            yield from members(thing.final_target if thing.is_alias else thing, name)


def is_listed(path, thing):
    return path.split(".")[0] in LISTED and (thing.is_attribute or path.endswith(("__init__", "replace", "as_dict")))


def test_public_objects_are_described(package):
    bare = [path for path, thing in public(package) if not thing.docstring and not is_listed(path, thing)]
    assert not bare
    assert sum(1 for _ in public(package)) > 150, "the package was not read"


def test_arguments_are_described_and_no_others(package):
    wrong = {}
    for path, thing in public(package):
        if not thing.is_function or thing.docstring is None or is_listed(path, thing):
            continue
        sections = thing.docstring.parse("google", warnings=False)
        told = {p.name.lstrip("*") for s in sections if s.kind.value == "parameters" for p in s.value}
        there = {p.name for p in thing.parameters} - {"self", "cls"}
        if told != there:
            wrong[path] = {"missing": there - told, "unknown": told - there}
    assert not wrong


def test_examples_stand_below_their_heading(package):
    """Elsewhere the site draws the prompt as a quotation."""
    for path, thing in public(package):
        if thing.docstring and ">>>" in thing.docstring.value:
            texts = [s.value for s in thing.docstring.parse("google", warnings=False) if s.kind.value == "text"]
            assert not any(">>>" in text for text in texts), path


def test_parameters_of_sampling_are_described():
    text = inspect.getdoc(lamina.SamplingParams)
    for name in inspect.signature(lamina.SamplingParams).parameters:
        assert name in text, name
