"""A live server for the real packages of others, and the page of those that passed."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from serving import Live  # noqa: E402
from test_serve_tools import TEMPLATE  # noqa: E402

# Packages that would ask elsewhere for prices, or tell of their use.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HAYSTACK_TELEMETRY_ENABLED="False", DO_NOT_TRACK="1")

PASSED = {}
HEAD = """# Integrations

Packages that were held against this version: each is the real one of its index, and talks to a live server with the small model. Made from
the tests that passed (`tests/integrations`, `bash tests/night integrations`); others that speak OpenAI's, Anthropic's, Ollama's or
llama-server's API work by their base URL in the same way.

| package | version | how | held against |
| --- | --- | --- | --- |
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The small model with a template that shows tools: its own, for stories, takes none."""
    template = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(TEMPLATE)
    with Live("--context", "2048", "--max-tokens", "400", "--chat-template", template) as live:
        yield live


@pytest.fixture(scope="session")
def base(server):
    return server.url + "/v1"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    mark = item.get_closest_marker("package")
    if mark and report.when == "call" and report.passed:
        name, how = mark.args
        PASSED.setdefault((name, how), []).append((item.cls or item.function).__doc__.strip().rstrip("."))


def pytest_configure(config):
    config.addinivalue_line("markers", "package(name, how): the package of its index, and how it is pointed here")


def pytest_sessionfinish(session, exitstatus):
    """`LAMINA_BLESS=1` writes the rows of the page whose tests ran and passed; others stay."""
    if not os.environ.get("LAMINA_BLESS") or exitstatus != 0:
        return
    page = ROOT / "docs" / "integrations.md"
    rows = {line.split("`")[1]: line for line in page.read_text().splitlines(keepends=True) if line.startswith("| `")}
    for (name, how), told in PASSED.items():
        rows[name] = f"| `{name}` | {importlib.metadata.version(name)} | {how} | {'; '.join(dict.fromkeys(told))} |\n"
    page.write_text(HEAD + "".join(rows[name] for name in sorted(rows)))
