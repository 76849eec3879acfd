"""The page of a trace in a headless browser. Pictures of it are written to `target/page`."""

import pytest
from browser import CONTRAST, PICTURES

import lamina

PROMPT = "Once upon a time, there was </script><b>a brave</b> little robot \u202e &"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    with lamina.LLM(progress=False, threads=1) as llm:
        trace = llm.trace([PROMPT, "A cat"], detail="inside", max_tokens=24, seed=4, temperature=0.9)
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
    for _ in range(120):
        page.press("Tab")
        reached.add(page.run("document.activeElement.tagName + ' ' + (document.activeElement.getAttribute('aria-label') ?? '')"))
    figures = page.run("[...document.querySelectorAll('figure')].map((f) => 'FIGURE ' + f.getAttribute('aria-label'))")
    assert set(figures) <= reached


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_are_saved_as_pixels(page, scheme):
    page.colours(scheme)
    page.run("window.saved = []; URL.createObjectURL = blob => { blob.arrayBuffer().then(b => saved.push(new Uint8Array(b))); return '#'; }")
    size = page.run(
        "(() => { const f = document.querySelector('#limits figure'); f.querySelector('figcaption button').click();"
        " return f.querySelector('svg[role=img]').getAttribute('viewBox').split(' ').map(Number); })()"
    )
    page.wait("window.saved.length > 0")
    data = bytes(page.run("[...saved[0]]"))
    (PICTURES / f"saved-{scheme}.png").write_bytes(data)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(data[at : at + 4], "big") for at in (16, 20)] == [2 * size[2] + 64, 2 * size[3] + 64]
    colours = page.run(
        "(async () => { const image = await createImageBitmap(new Blob([saved[0]])), canvas = new OffscreenCanvas(image.width, image.height);"
        " const draw = canvas.getContext('2d'); draw.drawImage(image, 0, 0);"
        " const all = draw.getImageData(0, 0, image.width, image.height).data, seen = new Set();"
        " for (let i = 0; i < all.length; i += 4) seen.add(all[i] + ' ' + all[i + 1] + ' ' + all[i + 2]); return [seen.size, all[0]]; })()"
    )
    assert colours[0] > 20 and (colours[1] > 128) == (scheme == "light"), "it has the theme's colours"


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
