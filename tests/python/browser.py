"""A headless browser over the DevTools protocol, through a pipe: no driver and no port."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chromium-headless-shell")
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "Space": (32, " ")}
SHIFT = 8
# Where tests leave pictures of pages.
PICTURES = Path(__file__).resolve().parents[2] / "target" / "page"
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


def find():
    """The browser's program, or None."""
    named = os.environ.get("LAMINA_TEST_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page."""

    def __init__(self, program, profile):
        here, to_browser = os.pipe()
        from_browser, there = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]

        def place():
            # The browser reads from 3 and writes to 4; either number may be taken by the other pipe.
            reads, writes = os.dup(here), os.dup(there)
            high = [os.dup2(fd, 100 + i) for i, fd in enumerate((reads, writes))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, *flags], preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(here)
        os.close(there)
        self.out, self.into = to_browser, from_browser
        self.rest = b""
        self.ids = itertools.count(1)
        self.session = None
        self.requests, self.complaints = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)

    def call(self, method, **params):
        """One command of the protocol and its result."""
        wanted = next(self.ids)
        message = {"id": wanted, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        end = time.monotonic() + 60
        while True:
            answer = self._read(end - time.monotonic())
            assert answer is not None, f"{method}: the browser does not answer"
            if answer.get("id") == wanted:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self, seconds):
        """One message, which may be an event; None when none comes in time."""
        while b"\0" not in self.rest:
            if not select.select([self.into], [], [], max(0.0, seconds))[0]:
                return None
            piece = os.read(self.into, 1 << 20)
            assert piece, "the browser has ended"
            self.rest += piece
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, params):
        """Remembers what the page asked for and what it complained of."""
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.complaints.append(str(params["args"]))

    def open(self, url):
        """Goes to `url` and waits for its scripts."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def reload(self):
        """Loads the page anew and waits for its scripts."""
        self.run("window.stale = true")
        self.call("Page.reload")
        self.wait("!window.stale && document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression; promises are waited for."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition, seconds=30):
        """Waits until the expression is true, and gives its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(condition)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {condition}")

    def type(self, text):
        """Types into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key, modifiers=0):
        """Presses and releases a key."""
        code, text = KEYS[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def size(self, width, height):
        """Makes the page so large."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def colours(self, scheme):
        """What the system prefers: `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        """Writes what the page looks like."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))
