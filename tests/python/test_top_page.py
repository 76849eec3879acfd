"""The page of what a server does now, in a headless browser beside a live server. Pictures of it are written to `target/page`."""

import json
import threading
import urllib.error
import urllib.request

import pytest
from browser import CONTRAST, PICTURES
from serving import Live

KEY = "secret"
LONG = 20000


@pytest.fixture(scope="module")
def server():
    with Live("--api-key", KEY, "--goal", "ttft=500,tbt=50", "--context", "30000", "--context-shift", "8") as live:
        yield live


def ask(server, tokens, name):
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": tokens, "ignore_eos": True}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "x-request-id": name}
    request = urllib.request.Request(server.url + "/v1/completions", body, headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


@pytest.fixture
def page(browser, server):
    """The page behind its key, with some requests; at the end it must have asked nobody else."""
    browser.size(1200, 1500)
    browser.colours("light")
    browser.open(server.url + "/top")
    browser.wait("!document.querySelector('#ask').hidden")
    browser.complaints.clear()
    browser.requests.clear()
    browser.run("document.querySelector('#key').focus()")
    browser.type(KEY)
    browser.press("Enter")
    browser.wait("document.querySelector('#well').textContent.includes('is well')")
    yield browser
    assert all(url.startswith((server.url, "data:")) for url in browser.requests), browser.requests
    assert browser.complaints == []
    browser.run("sessionStorage.clear()")


def test_it_shows_what_happens_and_stops_it(page, server):
    over = threading.Event()

    def load(name):
        while not over.is_set():
            ask(server, 300, name)

    clients = [threading.Thread(target=load, args=(f"one-{i}",)) for i in range(4)]
    for client in clients:
        client.start()
    page.wait("document.querySelector('#who tr')?.textContent.startsWith('one-')", 60)
    page.wait("[...document.querySelectorAll('#where li')].some((li) => li.textContent.startsWith('machine '))", 60)
    page.wait("document.querySelector('#feel').textContent.includes('of 500 ms')", 60)
    for scheme in "light", "dark":
        page.colours(scheme)
        page.picture(PICTURES / f"top-{scheme}.png")
        assert page.run(CONTRAST) == []
    over.set()
    for client in clients:
        client.join()
    page.wait("document.querySelectorAll('#who tr').length === 0", 60)
    assert page.run("document.querySelector('#nobody').hidden") is False
    ended = []
    long = threading.Thread(target=lambda: ended.append(stopped(server)))
    long.start()
    page.wait("document.querySelector('[aria-label=\"stop long\"]') !== null", 60)
    page.run("document.querySelector('[aria-label=\"stop long\"]').click()")
    long.join(60)
    assert ended and ended[0] < LONG


def stopped(server):
    """Tokens of an answer that somebody else ends."""
    try:
        return ask(server, LONG, "long")["usage"]["completion_tokens"]
    except urllib.error.HTTPError:
        return 0


def test_it_fits_a_telephone_and_paper(page):
    page.size(320, 900)
    page.run("dispatchEvent(new Event('resize'))")
    assert page.run("document.documentElement.scrollWidth") <= 320
    page.picture(PICTURES / "top-narrow.png")
    names = page.run("[...document.querySelectorAll('svg')].map((s) => s.getAttribute('aria-label') ?? '')")
    assert len(names) == 5 and all(names)
    assert page.run("[...document.querySelectorAll('section')].every((s) => document.getElementById(s.getAttribute('aria-labelledby')))")
    reached = set()
    for _ in range(8):
        page.press("Tab")
        reached.add(page.run("document.activeElement.id"))
    assert "theme" in reached
    assert len(page.call("Page.printToPDF")["data"]) > 10_000
