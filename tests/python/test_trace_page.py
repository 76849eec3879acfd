"""The page of a trace in a headless browser. Pictures of it are written to `target/page`."""

import pytest
from browser import Browser, find
from conftest import ROOT

import lamina

PICTURES = ROOT / "target" / "page"
PROMPT = "Once upon a time, there was </script><b>a brave</b> little robot \u202e &"
# Contrast of each text against what lies behind it, as WCAG 2 has it; below 4.5 it is listed. Text in SVG has its fill.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => {
    const one = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((v, i) => (v * a + under[i] * (255 - a)) / 255);
  const ground = (node) => {
    const layers = [];
    for (let n = node; n; n = n.parentElement) {
      const colour = rgba(getComputedStyle(n).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 255) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const bad = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "TITLE"].includes(node.tagName.toUpperCase())) continue;
    const style = getComputedStyle(node);
    if (node.getClientRects().length === 0 || style.visibility === "hidden") continue;
    const inside = node.ownerSVGElement !== null && node.ownerSVGElement !== undefined;
    // Words on the marks of a figure are looked at by eye.
    if (inside && node.classList.contains("w")) continue;
    const back = ground(inside ? node.ownerSVGElement.parentElement : node);
    const front = over(rgba(inside ? style.fill : style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.add(`${ratio.toFixed(2)} ${node.tagName}.${node.getAttribute("class") ?? ""} ${walker.currentNode.textContent.trim().slice(0, 20)}`);
    if (parseFloat(style.fontSize) < 11) bad.add(`${style.fontSize} ${node.tagName}.${node.getAttribute("class") ?? ""}`);
  }
  return [...bad];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find()
    if program is None:
        pytest.skip("no browser was found: install chromium, or name one in LAMINA_TEST_BROWSER")
    PICTURES.mkdir(parents=True, exist_ok=True)
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    with lamina.LLM(progress=False, threads=1) as llm:
        trace = llm.trace([PROMPT, "A cat"], max_tokens=24, seed=4, temperature=0.9)
    path = tmp_path_factory.mktemp("trace") / "trace.html"
    trace.save(path)
    return path


@pytest.fixture
def page(browser, file):
    """The page, which at the end must have asked nobody and complained of nothing."""
    browser.size(1200, 900)
    browser.colours("light")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(file.as_uri())
    yield browser
    asked = [url for url in browser.requests if url != file.as_uri() and not url.startswith("data:")]
    assert asked == [] and browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(page, scheme):
    page.colours(scheme)
    assert page.run("matchMedia(`(prefers-color-scheme: dark)`).matches") == (scheme == "dark")
    page.call("Emulation.setDeviceMetricsOverride", width=1200, height=7000, deviceScaleFactor=1, mobile=False)
    page.picture(PICTURES / f"trace-{scheme}.png")
    assert page.run(CONTRAST) == []


def test_figures_have_names_and_tables(page):
    stations = page.run(
        "[...document.querySelectorAll('section')].map((s) => [s.querySelector('h2')?.textContent ?? '',"
        " s.querySelector('figure')?.getAttribute('aria-label') ?? '', s.querySelectorAll('table tr').length])"
    )
    figures = [row for row in stations if row[1]]
    assert len(figures) >= 8
    for title, label, rows in figures:
        assert title and label.split(",")[0] in title and rows > 1, (title, label, rows)
    assert page.run("document.querySelectorAll('b').length > 0 && !document.querySelector('#strip b, bdi > b')")


def test_keys_alone_reach_all(page):
    chosen = "[...document.querySelectorAll('[data-t]')].findIndex((t) => t.getAttribute('aria-selected') === 'true')"
    first = page.run(chosen)
    key = "document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{}', bubbles: true }}))"
    before = page.run("[...document.querySelectorAll('[data-follow]')].map((n) => n.textContent)")
    page.run(key.format("ArrowRight"))
    page.run(key.format("ArrowRight"))
    assert page.run(chosen) == first + 2
    after = page.run("[...document.querySelectorAll('[data-follow]')].map((n) => n.textContent)")
    assert before and all(b != a for b, a in zip(before, after)), "each figure follows the token"
    theme = page.run("getComputedStyle(document.body).backgroundColor")
    page.run(key.format("t"))
    assert page.run("getComputedStyle(document.body).backgroundColor") != theme
    reached = set()
    for _ in range(80):
        page.press("Tab")
        reached.add(page.run("document.activeElement.tagName + ' ' + (document.activeElement.getAttribute('aria-label') ?? '')"))
    figures = page.run("[...document.querySelectorAll('figure')].map((f) => 'FIGURE ' + f.getAttribute('aria-label'))")
    assert set(figures) <= reached


def test_it_prints_all_and_fits_a_telephone(page):
    page.size(320, 700)
    assert page.run("document.documentElement.scrollWidth") <= 320
    page.picture(PICTURES / "trace-narrow.png")
    page.size(1200, 900)
    page.call("Emulation.setEmulatedMedia", media="print")
    hidden = page.run("[...document.querySelectorAll('section')].filter((s) => s.getClientRects().length === 0).length")
    assert hidden == 0 and page.run("getComputedStyle(document.body).colorScheme.includes('dark')") is False
    printed = page.call("Page.printToPDF", printBackground=True)["data"]
    assert len(printed) > 20_000
    page.call("Emulation.setEmulatedMedia", media="")
