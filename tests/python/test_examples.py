"""Every Python example and recipe runs on the model inside the package and says what it should."""

import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from serving import Live

ROOT = Path(__file__).resolve().parents[2]
FOLDER, RECIPES = ROOT / "examples" / "python", ROOT / "examples" / "cookbook"

SAYS = {
    "generate": ["Once upon a time", "llama, 2.8 M parameters on cpu", r"\d+ tokens/s"],
    "stream": [r"\(ended by length\)", r"cancelled after \d\d characters"],
    "chat": ["She found a red ball in the park", r"answer: \w", r"[1-9]\d* of \d+ prompt tokens were cached"],
    "batch": ["The big brown bear", "in company and alone: True"],
    "logits": [r"logits \(\d+, 2048\) float32", "most likely", r"perplexity: \d"],
    "embeddings": [r"vectors \(3, 256\)", " 1.000", r"hidden rows after layer 1: \(\d+, 256\)"],
    "sampling": ["a seed repeats an answer: True", r"first sentence \(stop\)"],
    "lora": [r"adapters: \['random'\]", "the adapter changes the text: True"],
    "quantize": [r"as it is +Q8_0", r"Q4_K_M .* perplexity \d"],
}


# Short answers through a proxy, and the seconds from which on their pieces did not come in one.
TRIES, APART = 16, 0.0005

RECIPES_SAY = {
    "documents": [r"found: \S+:\d \S+:\d", r'"sources"'],
    "tools": [r'-> \{"(fruit|error)": "', "roles: user assistant tool assistant"],
    "extraction": [r"a.txt Order\(item=", r"whole: \d of 3"],
    "many_prompts": ["24 answers, in order: True", "the same after a break: True"],
    "adapters": ["adapters: north south", "each has its own: True", "alone and together the same: True"],
    "larger_than_memory": ["memory 40MiB: fits False", r"1\.\d MB of the weights are on disk", "the same answer: True"],
    "guess_ahead": [r"a refrain: [1-9]\d* of \d+ guesses were right", "the same answers: True"],
    "classify": [r"happy +0\.\d\d +Lily got", r"sad +0\.\d\d +Tom lost", "chosen: happy"],
    "long_chats": [r"second turn: 1\d\d of", r"shifted: [1-9]\d* times", r"after a restart: 1\d\d tokens .* the same: True", "turns 1"],
    "measure": [r"auto +perplexity \d", r"q4_k: \d+ of 32"],
    "inside_my_app": ["threads and tasks say the same: True", "cancelled after 5 pieces"],
}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.py")), ids=lambda path: path.stem)
def test_recipe(path):
    """Each runs, and its page shows it as it is."""
    run(path, RECIPES_SAY[path.stem])
    page = ROOT / "docs" / "cookbook" / f"{path.stem.replace('_', '-')}.md"
    assert f"```python\n{path.read_text().strip()}\n```" in page.read_text()
    assert 40 <= len(page.read_text().splitlines()) <= 120


def test_behind_nginx(tmp_path):
    """The file of the recipe, with the ports of two live servers: streams come piece by piece, and a lost replica is passed over."""
    conf = (RECIPES / "nginx.conf").read_text()
    assert f"```nginx\n{conf.strip()}\n```" in (ROOT / "docs/cookbook/behind-nginx.md").read_text()
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("nginx or openssl is not installed")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "keys.txt").write_text("secret alice\n")
    (given,) = {line.partition("--port 808")[2][2:] for line in conf.splitlines() if line.startswith("#   lamina serve")}
    flags = given.replace("keys.txt", str(tmp_path / "keys.txt")).split()
    with Live(*flags, "--context", "512") as first, Live(*flags, "--context", "512") as second:
        for old, new in ((8081, first.url), (8082, second.url)):
            conf = conf.replace(f"127.0.0.1:{old} ", new.removeprefix("http://") + " ")
        (tmp_path / "nginx.conf").write_text(conf.replace("8443", str(port)).replace("worker_processes 1;", "worker_processes 1; daemon off;"))
        with subprocess.Popen(["nginx", "-p", tmp_path, "-c", tmp_path / "nginx.conf"], stderr=subprocess.PIPE) as nginx:
            try:
                ask_through(f"https://127.0.0.1:{port}", first, second)
            finally:
                nginx.terminate()


def ask_through(url, first, second):
    trusting = ssl._create_unverified_context()

    def ask(path, body=None, **headers):
        headers = {"Authorization": "Bearer secret", "Content-Type": "application/json", **headers}
        return urllib.request.urlopen(urllib.request.Request(url + path, body, headers), timeout=60, context=trusting)

    def refused(path, body=None, **headers):
        with pytest.raises(urllib.error.HTTPError) as error:
            ask(path, body, **headers)
        with error.value:
            return error.value.code

    end = time.monotonic() + 20
    while True:
        try:
            with ask("/health") as answer:
                assert answer.status == 200
                break
        except OSError:
            assert time.monotonic() < end, "nginx does not answer"
            time.sleep(0.1)
    for path in ("/v1/completions", "/llm/v1/completions"):
        spans = [answer_span(ask, path) for _ in range(TRIES)]
        assert sum(span > APART for span in spans) > TRIES / 4, f"pieces came at once: {spans}"
    assert refused("/metrics") == refused("/llm/metrics") == 404 and refused("/v1/models", Authorization="Bearer other") == 401
    few = b'{"prompt": "Once", "max_tokens": 2}'
    # The page of the server, under the name that browsers see.
    with ask("/v1/completions", few, Host="llm.example.org:8443", Origin="https://llm.example.org:8443") as answer:
        assert answer.headers["access-control-allow-origin"] == "https://llm.example.org:8443"
    assert refused("/v1/completions", few, Origin="https://other.example.org") == 403
    with ask("/v1/models", **{"X-Forwarded-For": "203.0.113.9"}):
        assert wait_for(lambda: any("peer=203.0.113.9" in line for line in first.log + second.log)), "the client's own address"
    host, port = url.removeprefix("https://").split(":")
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection((host, int(port))) as plain, trusting.wrap_socket(plain) as tls:
        assert tls.selected_alpn_protocol() == "h2"
    trusting.set_alpn_protocols(["http/1.1"])
    first.close()
    with ask("/v1/completions", few) as answer:
        assert answer.status == 200


def answer_span(ask, path):
    """Seconds from the first piece to the last of an answer that is smaller than a proxy's buffer."""
    body = b'{"prompt": "Once", "max_tokens": 12, "stream": true, "ignore_eos": true}'
    with ask(path, body) as stream:
        times = [time.monotonic() for line in stream if line.startswith(b"data:")]
    assert len(times) > 12
    return times[-1] - times[0]


def wait_for(true):
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_example(path):
    run(path, SAYS[path.stem])


def run(path, says):
    out = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    for part in says:
        assert re.search(part, out.stdout), f"{part} is not in:\n{out.stdout}"
