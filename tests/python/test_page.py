"""The web page in a headless browser, beside a live server. Pictures of it are written to `target/page`."""

import base64
import json
import shutil
import subprocess

import pytest
from browser import PICTURES, SHIFT
from conftest import ROOT
from serving import Live

BUSY = "document.querySelector('article[aria-busy=true]') !== null"
DONE = "document.querySelectorAll('article.assistant').length >= {n} && !({busy})"
# Does something once when an answer that is being written has grown, and keeps what the button says then.
WHEN_ANSWERING = """(() => {{
  const text = () => document.querySelector("article.assistant > .markdown")?.textContent.length ?? 0;
  const before = text();
  window.label = "";
  new MutationObserver((_, observer) => {{
    if (!Chat.running || text() <= before + 10) return;
    observer.disconnect();
    window.label = document.querySelector("#send").textContent;
    {action};
  }}).observe(document.querySelector("#log"), {{ childList: true, subtree: true, characterData: true }});
}})()"""
HOSTILE = """# A title

<script>window.broken = true</script> and **bold** <img src=x onerror="window.broken = true">

[bad](javascript:window.broken=true) [good](https://example.org/) ![picture](https://example.org/p.png)

| a | b |
|---|--:|
| 1 | `x < y` |

```html
<b onclick="window.broken = true">code</b>
```

- [x] done
- a &lt;tag&gt;
"""


COLOURED = """Some code:

```rust
// Says hello.
fn main() { let name = "</script><script>window.broken = true</script>"; println!("{name} {}", 1.5e3); }
```

```python
@cached
def f(x: int = 3) -> str:
    # A comment with "quotes" and <b>tags</b>.
    text = 'single \\n'
    return f"{x!r}" if x else None
```

```no-such-language
plain <b>text</b>
```

1. In a list:
   ```json
   {"a": [1, true, null]}
   ```
"""
MATH = r"""The root of \(x^2 = 2\) is $\sqrt{2}$; it costs $5 and $10.

$$\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2} \quad \forall x \in \mathbb{R}, \mathbf{v} \in \mathcal{L}$$

\[
\begin{pmatrix} a & b \\ c & d \end{pmatrix} \begin{cases} 1 & x > 0 \\ 0 & \text{else} \end{cases}
\]

\begin{align} a &= b + c \\ &= d \end{align}

Wrong: $\frac{1}$ and $\text{</script><script>window.broken = true</script><img src=x onerror="window.broken = true">}$
and \(\href{javascript:window.broken=true}{x}\) and \(\htmlStyle{color: red}{x}\) and $\boxed{E = mc^2}$.
"""
# What a page that is asked for a model with eyes would send; and a picture of so many pixels a side.
RECORD = """(() => { const own = window.fetch; window.bodies = []; window.fetch = (url, options) => {
    if (options?.method === "POST" && options.body) window.bodies.push(JSON.parse(options.body));
    return own(url, options);
}; Attachments.offer({ vision: true }); })()"""
PICTURE = """(async (side, type = "image/png") => {
    const canvas = el("canvas", { width: side, height: side });
    canvas.getContext("2d").fillRect(0, 0, side / 2, side);
    const blob = await new Promise((done) => canvas.toBlob(done, type));
    const transfer = new DataTransfer();
    transfer.items.add(new File([blob], "picture.png", { type }));
    return transfer;
})"""


def visit(browser, server):
    """Opens the page as a new visitor."""
    browser.size(1100, 900)
    browser.open(server.url + "/")
    browser.run("localStorage.clear(), sessionStorage.clear()")
    browser.open(server.url + "/")


@pytest.fixture
def page(browser, server):
    """The page as a new visitor sees it; at the end it must have asked nobody else and complained of nothing."""
    visit(browser, server)
    browser.wait("document.querySelectorAll('#model option').length > 0")
    browser.wait("document.querySelector('#parameter-temperature') !== null")
    browser.requests.clear()
    browser.complaints.clear()
    yield browser
    own = (server.url + "/", "data:", "blob:")
    assert [url for url in browser.requests if not url.startswith(own)] == []
    assert browser.complaints == []


def say(page, text, n=1):
    """Sends a message with the keyboard and waits for the `n`th answer."""
    page.run("document.querySelector('#text').focus()")
    page.type(text)
    page.press("Enter")
    page.wait(DONE.format(n=n, busy=BUSY), 120)


def store(page, server, conversation):
    """Opens a conversation that the browser kept."""
    text = json.dumps({"id": "test", "updated": 1, **conversation})
    page.run(f"localStorage.setItem('lamina.conversation.test', {json.dumps(text)})")
    page.open(server.url + "/")
    page.wait("document.querySelector('#parameter-temperature') !== null")


def button(name, which="article.assistant"):
    """A script that finds a button of the last message of that kind."""
    return f"[...[...document.querySelectorAll('{which}')].at(-1).querySelectorAll('button')].find(b => b.textContent === '{name}')"


def test_units():
    node = shutil.which("node") or shutil.which("nodejs")
    if node is None:
        pytest.skip("node was not found")
    folder = ROOT / "crates" / "serve" / "src" / "page"
    script = ROOT / "tests" / "python" / "page_units.js"
    done = subprocess.run([node, script, folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_it_is_sent_with_a_policy(server):
    status, headers, text = server.request("/", headers={"accept": "text/html,*/*"})
    assert status == 200 and "<title>Lamina</title>" in text
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'") and "unsafe" not in policy
    assert server.get("/")[1].strip() == "Lamina is running"


def test_a_conversation_by_keyboard(page):
    assert page.run("document.activeElement.id") == "text"
    page.type("one")
    page.press("Enter", SHIFT)
    # Longer than a page of the cache, so that the next turn finds it there.
    page.type("Tell me a long story. " * 8)
    page.run("document.querySelector('#parameter-max_tokens').value = '24'")
    page.run("document.querySelector('#parameter-max_tokens').dispatchEvent(new Event('input'))")
    page.press("Enter")
    page.wait(DONE.format(n=1, busy=BUSY), 120)
    assert page.run("document.querySelector('article.user p').textContent").startswith("one")
    figures = page.run("document.querySelector('article.assistant .figures').textContent")
    assert "prompt" in figures and "answer" in figures and "first after" in figures, figures
    assert page.run("document.activeElement.id") == "text", "the focus is kept"
    page.picture(PICTURES / "answer.png")
    say(page, "And then?", 2)
    assert "cached" in page.run("[...document.querySelectorAll('.figures')].at(-1).textContent")
    kept = page.run("document.querySelectorAll('article').length")
    page.reload()
    page.wait(f"document.querySelectorAll('article').length === {kept}")
    assert page.run("document.querySelector('#conversations .title').textContent") == "one"


def test_an_answer_is_stopped_and_continued(page, server):
    store(page, server, {"messages": [], "params": {"ignore_eos": True}})
    page.run("document.querySelector('#conversations .title').click()")
    page.type("Go on for long.")
    # The small model is done sooner than a test can look: the page itself presses the key, when it sees an answer.
    page.run(WHEN_ANSWERING.format(action="document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))"))
    page.press("Enter")
    page.wait("window.label")
    page.wait(f"!({BUSY})")
    assert page.run("window.label") == "Stop"
    assert "stopped" in page.run("document.querySelector('article.assistant .figures').textContent")
    text = "document.querySelector('article.assistant > .markdown').textContent"
    before = page.run(text)
    page.run(WHEN_ANSWERING.format(action="document.querySelector('#send').click()"))
    page.run(button("Continue") + ".click()")
    page.wait("window.label")
    page.wait(f"!({BUSY})")
    assert len(page.run(text)) > len(before)
    assert page.run(text).startswith(before.rstrip())


def test_messages_are_edited_answered_again_and_deleted(page, server):
    params = {"temperature": 0, "max_tokens": 12}
    store(page, server, {"messages": [], "params": params})
    page.run("document.querySelector('#conversations .title').click()")
    say(page, "first")
    say(page, "second", 2)
    answer = page.run("document.querySelector('article.assistant > .markdown').textContent")
    page.run("document.querySelectorAll('article.user')[0].querySelectorAll('.buttons button')[1].click()")
    page.run("document.activeElement.select()")
    page.type("another")
    page.press("Enter")
    page.wait(DONE.format(n=1, busy=BUSY), 60)
    assert page.run("[...document.querySelectorAll('article.user .plain')].map(p => p.textContent)") == ["another"]
    page.run(button("Regenerate") + ".click()")
    page.wait(DONE.format(n=1, busy=BUSY), 60)
    assert page.run("document.querySelectorAll('article').length") == 2
    assert answer, "greedy answers are texts"
    page.run(button("Delete") + ".click()")
    assert page.run("document.querySelectorAll('article').length") == 1


def test_hostile_markdown_is_text(page, server):
    messages = [
        {"role": "user", "content": "<b>hello</b>"},
        {"role": "assistant", "content": HOSTILE, "reasoning": "I *think*. <script>window.broken = true</script>"},
        {"role": "assistant", "content": ">" * 20000},
    ]
    store(page, server, {"messages": messages})
    page.wait("document.querySelectorAll('article').length === 3")
    assert page.run("window.broken") is None
    assert page.run("document.querySelectorAll('article script, article img, article [onclick], article [onerror]').length") == 0
    links = page.run("[...document.querySelectorAll('article a')].map(a => [a.href, a.rel, a.target])")
    assert [link[0] for link in links] == ["https://example.org/", "https://example.org/p.png"]
    assert all("noopener" in rel and target == "_blank" for _, rel, target in links)
    assert page.run("document.querySelector('article.user p').textContent") == "<b>hello</b>"
    assert page.run("document.querySelector('.code code').textContent").startswith("<b onclick=")
    assert page.run("document.querySelector('td code').textContent") == "x < y"
    assert page.run("document.querySelector('details.reasoning').open") is False
    page.picture(PICTURES / "markdown.png")


def test_code_has_colours_and_stays_text(page, server):
    store(page, server, {"messages": [{"role": "user", "content": "code"}, {"role": "assistant", "content": COLOURED}]})
    page.wait("document.querySelectorAll('.code').length === 4")
    code = page.run("[...document.querySelectorAll('.code code')].map(c => c.textContent)")
    assert code == [COLOURED.split("```")[i].split("\n", 1)[1].rstrip("\n") for i in (1, 3, 5)] + ['{"a": [1, true, null]}']
    spans = "[...document.querySelectorAll('.code')].map(c => new Set([...c.querySelectorAll('span[class^=code-]')].map(s => s.className)).size)"
    counts = page.run(spans)
    assert counts[0] >= 4 and counts[1] >= 4 and counts[2] == 0 and counts[3] >= 2, counts
    assert page.run("window.broken") is None and page.run("document.querySelectorAll('article script').length") == 0
    page.picture(PICTURES / "code.png")
    page.colours("dark")
    page.picture(PICTURES / "code-dark.png")
    page.size(390, 844)
    assert page.run("document.documentElement.scrollWidth") == 390
    page.picture(PICTURES / "code-narrow-dark.png")
    page.colours("light")


def test_code_is_coloured_while_it_is_written(page, server):
    store(page, server, {"messages": [{"role": "assistant", "content": ""}]})
    page.wait("document.querySelectorAll('article').length === 1")
    draw = """((end, open) => { const text = %s; const node = document.querySelector('article > .markdown');
        Markdown.render(node, end === undefined ? text : text.slice(0, end), open);
        return [...node.querySelectorAll('code')].map(c => c.textContent).join('|'); })""" % json.dumps(COLOURED)
    whole = page.run(f"{draw}(undefined, false)")
    calls = "(() => { const own = Prism.tokenize; window.calls = 0; Prism.tokenize = (...g) => { window.calls++; return own(...g); }; })()"
    page.run(calls)
    page.run(f"for (let end = 1; end < {len(COLOURED)}; end++) {draw}(end, true)")
    assert page.run(f"{draw}(undefined, true)") == whole
    assert page.run("window.calls") < 60, "a token does not colour everything anew"
    assert page.run(f"{draw}(undefined, false)") == whole
    assert page.run("document.querySelectorAll('.code:last-of-type span[class^=code-]').length") > 0


def test_formulas_are_drawn_and_run_nothing(page, server):
    store(page, server, {"messages": [{"role": "user", "content": "math"}, {"role": "assistant", "content": MATH}]})
    page.wait("document.querySelectorAll('article math').length >= 6")
    assert page.run("document.querySelectorAll('article math[display=block]').length") == 3
    assert page.run("[...document.querySelectorAll('article math mi')].some(n => n.textContent === 'ℝ')")
    assert "it costs $5 and $10." in page.run("document.querySelector('article.assistant p').textContent")
    wrong = page.run("[...document.querySelectorAll('article .formula-error')].map(n => n.textContent)")
    assert wrong == [r"$\frac{1}$"]
    assert page.run("window.broken") is None
    assert page.run("document.querySelectorAll('article script, article img, article math a[href], article [onerror]').length") == 0
    assert page.run("[...document.querySelectorAll('article mtext')].some(n => n.textContent.includes('</script>'))")
    sides = page.run("[...document.querySelectorAll('article mtable')].at(-1).querySelectorAll('mtd')[0].style.textAlign")
    assert sides == "right"
    page.picture(PICTURES / "math.png")
    page.colours("dark")
    page.size(390, 844)
    assert page.run("document.documentElement.scrollWidth") == 390
    page.picture(PICTURES / "math-narrow-dark.png")
    page.colours("light")


def test_pictures_are_pasted_dropped_sent_and_kept(page):
    assert page.run("document.querySelector('#attach').hidden"), "this model takes text only"
    page.run(f"{PICTURE}(8).then(t => document.dispatchEvent(new DragEvent('drop', {{dataTransfer: t, cancelable: true}})))")
    page.wait("document.querySelector('#notice').textContent === 'This model takes text only.'")
    page.run(RECORD)
    assert not page.run("document.querySelector('#attach').hidden")
    page.run(f"{PICTURE}(8).then(t => byId('text').dispatchEvent(new ClipboardEvent('paste', {{clipboardData: t, cancelable: true}})))")
    page.wait("document.querySelectorAll('#pictures img').length === 1")
    # Two at once: neither takes the other's place.
    drop = "t => document.dispatchEvent(new DragEvent('drop', {dataTransfer: t, cancelable: true}))"
    page.run(f"Promise.all([{PICTURE}(9), {PICTURE}(10)]).then(all => all.forEach({drop}))")
    page.wait("document.querySelectorAll('#pictures img').length === 3")
    page.run("[...document.querySelectorAll('#pictures button')].at(-1).click()")
    page.run(f"{PICTURE}(300).then(t => {{ const f = byId('attach-file'); f.files = t.files; f.dispatchEvent(new Event('change')); }})")
    page.wait("document.querySelectorAll('#pictures img').length === 3")
    page.picture(PICTURES / "attached.png")
    page.run("document.querySelectorAll('#pictures button')[1].click()")
    page.run("document.querySelector('#text').focus()")
    page.type("What is it?")
    page.press("Enter")
    page.wait("window.bodies.length === 1 && !Chat.running")
    parts = page.run("window.bodies[0].messages[0].content")
    assert [part["type"] for part in parts] == ["image_url", "image_url", "text"]
    assert all(part["image_url"]["url"].startswith("data:image/png;base64,") for part in parts[:2])
    assert page.run("document.querySelectorAll('#pictures img').length") == 0
    assert page.run("document.querySelectorAll('article.user .pictures img').length") == 2
    page.picture(PICTURES / "pictures.png")
    # Edited and answered again, the pictures stay; stored conversations name them by hash.
    page.run(button("Edit", "article.user") + ".click()")
    page.run("document.activeElement.select()")
    page.type("And now?")
    page.press("Enter")
    page.wait("window.bodies.length === 2 && !Chat.running")
    page.run(button("Regenerate") + ".click()")
    page.wait("window.bodies.length === 3 && !Chat.running")
    again = page.run("window.bodies.slice(1).map(body => body.messages[0].content)")
    assert again == [[*parts[:2], {"type": "text", "text": "And now?"}]] * 2
    assert "base64" not in page.run("JSON.stringify(localStorage)")
    page.reload()
    page.wait("document.querySelectorAll('article.user .pictures img').length === 2")
    assert page.complaints and all("400 (Bad Request)" in text for text in page.complaints), "it takes text only"
    page.complaints.clear()
    file = json.loads(page.run("Store.write()"))
    assert sorted(file["pictures"].values()) == sorted(part["image_url"]["url"] for part in parts[:2])
    page.run("document.querySelector('article.user .pictures button').click()")
    assert page.run("document.querySelector('article.user .pictures button').getAttribute('aria-pressed')") == "true"


def test_a_model_that_sees_answers_about_a_picture(browser, shared):
    model = shared / "golden-vision" / "qwen2-vl"
    if not model.exists():
        pytest.skip("no fixture of a model that sees")
    with Live("--context", "1024", "--image-limit", "side=64", model=model) as server:
        visit(browser, server)
        browser.wait("!document.querySelector('#attach').hidden")
        browser.run("Chat.conversation.params.max_tokens = 4")
        browser.complaints.clear()
        browser.run(f"{PICTURE}(200).then(t => byId('text').dispatchEvent(new ClipboardEvent('paste', {{clipboardData: t, cancelable: true}})))")
        browser.wait("document.querySelector('#pictures img')?.naturalWidth === 64")
        say(browser, "What is it?")
        assert browser.run("document.querySelector('article.assistant .error').hidden")
        assert "answer 4 tokens" in browser.run("document.querySelector('article.assistant .figures').textContent")
        browser.picture(PICTURES / "seen.png")
        assert browser.complaints == []


def test_a_model_that_hears_answers_about_a_sound(browser, shared):
    model = shared / "golden-vision" / "qwen2-audio"
    if not model.exists():
        pytest.skip("no fixture of a model that hears")
    sound = base64.b64encode((ROOT / "crates/sound/tests/files/sweep.wav").read_bytes()).decode()
    file = f"new File([Uint8Array.from(atob('{sound}'), c => c.charCodeAt(0))], 'sweep.wav')"
    drop = f"(() => {{ const t = new DataTransfer(); t.items.add({file}); document.dispatchEvent(new DragEvent('drop', {{dataTransfer: t, cancelable: true}})); }})()"
    with Live("--context", "1024", model=model) as server:
        visit(browser, server)
        browser.wait("document.querySelector('#attach').textContent === 'Sound'")
        browser.run("Chat.conversation.params.max_tokens = 4")
        browser.complaints.clear()
        browser.run(f"{PICTURE}(8).then(t => byId('text').dispatchEvent(new ClipboardEvent('paste', {{clipboardData: t, cancelable: true}})))")
        browser.wait("document.querySelector('#notice').textContent === 'This model takes no pictures.'")
        browser.run(drop)
        browser.wait("document.querySelector('#pictures audio')?.duration === 1.5")
        browser.run("Sounds.learn({ bytes: 100 })")
        browser.run(drop)
        browser.wait("document.querySelector('#notice').textContent.startsWith('sweep.wav: the server takes sounds of')")
        say(browser, "What is said?")
        assert browser.run("document.querySelector('article.assistant .error').hidden")
        assert "answer 4 tokens" in browser.run("document.querySelector('article.assistant .figures').textContent")
        assert browser.run("document.querySelectorAll('#pictures audio').length") == 0
        browser.picture(PICTURES / "heard.png")
        browser.reload()
        browser.wait("document.querySelector('article.user .pictures audio')?.duration === 1.5")
        assert browser.complaints == []


def test_pictures_are_made_smaller_only_above_the_servers_limit(page):
    page.run(RECORD)
    for limit, side, kind in [("pixels: 64e6", 64, "png"), ("pixels: 1024", 32, "jpeg"), ("pixels: 64e6, bytes: 200", 0, "jpeg")]:
        page.run(f"Pictures.learn({{ {limit} }})")
        page.run(f"{PICTURE}(64).then(t => document.dispatchEvent(new DragEvent('drop', {{dataTransfer: t, cancelable: true}})))")
        page.wait("document.querySelectorAll('#pictures img').length === 1 && document.querySelector('#pictures img').complete")
        url, width = page.run("(i => [i.src, i.naturalWidth])(document.querySelector('#pictures img'))")
        assert url.startswith(f"data:image/{kind};base64,")
        assert width == side if side else width < 64
        page.run("document.querySelector('#pictures button').click()")
    page.run("const t = new DataTransfer(); t.items.add(new File(['no picture'], 'no.png', { type: 'image/png' }));"
             "document.dispatchEvent(new DragEvent('drop', { dataTransfer: t, cancelable: true }))")
    page.wait("document.querySelector('#notice').textContent.startsWith('no.png: this is no picture')")


def test_probabilities_are_shown_on_demand(page):
    page.run("document.querySelector('#logprobs').click()")
    page.run("document.querySelector('#parameter-max_tokens').value = '8'")
    page.run("document.querySelector('#parameter-max_tokens').dispatchEvent(new Event('input'))")
    say(page, "hello")
    page.run(button("Tokens") + ".click()")
    assert page.run("document.querySelectorAll('.tokens span').length") > 1
    assert "%" in page.run("document.querySelector('.tokens span').title")
    page.picture(PICTURES / "tokens.png")


def test_parameters_are_those_of_the_server(page, server):
    names = {p["name"] for p in json.loads(server.get("/props")[1])["parameters"]}
    shown = set(page.run("[...document.querySelectorAll('#parameters input, #parameters textarea')].map(i => i.id.slice(10))"))
    assert shown == names - {"logprobs"} | {"max_tokens", "stop"}
    page.run("document.querySelector('#settings-open').focus()")
    page.press("Enter")
    page.wait("document.querySelector('#settings').open")
    page.picture(PICTURES / "settings.png")
    field = "document.querySelector('#parameter-temperature')"
    page.run(field + ".focus()")
    page.type("hot")
    assert page.run(field + ".getAttribute('aria-invalid')") == "true"
    page.press("Escape")
    page.wait("!document.querySelector('#settings').open && document.activeElement.id === 'text'")


def test_narrow_screens_and_dark_colours(page):
    page.run("document.querySelector('#parameter-max_tokens').value = '8'")
    page.run("document.querySelector('#parameter-max_tokens').dispatchEvent(new Event('input'))")
    say(page, "a word that is wider than the screen " + "x" * 300)
    page.size(360, 740)
    page.colours("dark")
    assert page.run("document.documentElement.scrollWidth") == 360
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 29)"
    page.run("document.querySelector('#menu').click()")
    assert page.run("document.querySelector('#new').offsetParent !== null")
    page.picture(PICTURES / "narrow-dark.png")
    page.colours("light")


def test_the_engine_is_shown_beside_the_conversations(page, server):
    page.run("document.querySelector('#parameter-max_tokens').value = '200'")
    page.run("document.querySelector('#parameter-max_tokens').dispatchEvent(new Event('input'))")
    page.wait("!document.querySelector('#engine').hidden")
    say(page, "Once upon a time")
    # One look more follows the answer.
    page.wait("/^0 running, 0 waiting$/.test(document.querySelector('#engine-queue').textContent)")
    assert page.run("/^[0-9.]+ tokens.s$/.test(document.querySelector('#engine-speed').textContent)")
    assert page.run("/^cache [0-9]+ %$/.test(document.querySelector('#engine-share').textContent)")
    for width, height in [(1100, 900), (390, 844), (320, 640)]:
        page.size(width, height)
        assert page.run("document.documentElement.scrollWidth") == width
        page.picture(PICTURES / f"engine-{width}.png")


def test_conversations_are_exported_and_imported(page):
    page.run("document.querySelector('#parameter-max_tokens').value = '4'")
    page.run("document.querySelector('#parameter-max_tokens').dispatchEvent(new Event('input'))")
    say(page, "keep me")
    text = page.run("Store.write()")
    assert json.loads(text)["conversations"][0]["messages"][0]["content"] == "keep me"
    page.run("Store.all().forEach(c => Store.remove(c))")
    page.reload()
    page.wait("document.querySelectorAll('article').length === 0")
    drop = f"new File([{json.dumps(text)}], 'c.json')"
    script = f"(() => {{ const d = new DataTransfer(); d.items.add({drop}); const f = document.querySelector('#import-file');"
    page.run(script + " f.files = d.files; f.dispatchEvent(new Event('change')); })()")
    page.wait("document.querySelector('article.user p')?.textContent === 'keep me'")


def test_every_control_has_a_name(page):
    unnamed = """[...document.querySelectorAll('button, select, input, textarea')].filter(e =>
        !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML)"""
    assert page.run(unnamed) == []


def test_a_key_is_asked_for_and_errors_are_shown_in_place(browser):
    with Live("--api-key", "secret") as server:
        browser.size(1100, 900)
        browser.open(server.url + "/")
        browser.run("localStorage.clear(), sessionStorage.clear()")
        browser.reload()
        browser.wait("document.querySelector('#notice')?.textContent.includes('key')")
        browser.run("document.querySelector('#text').focus()")
        browser.type("hello")
        browser.press("Enter")
        browser.wait("[...document.querySelectorAll('.error')].some(e => !e.hidden && e.textContent.includes('key'))")
        browser.picture(PICTURES / "error.png")
        browser.run("document.querySelector('#key').value = 'secret'")
        browser.run("document.querySelector('#key').dispatchEvent(new Event('change'))")
        browser.wait("document.querySelectorAll('#model option').length > 0")
        browser.run("Chat.conversation.params.max_tokens = 8")
        browser.run("document.querySelector('.error button').click()")
        browser.wait(DONE.format(n=1, busy=BUSY) + " && document.querySelector('article.assistant .figures').textContent !== ''", 60)
        assert browser.run("localStorage.length > 0 && !JSON.stringify(localStorage).includes('secret')")
