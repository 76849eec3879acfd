"""Replicas that are killed, stopped and renewed while they answer: every client gets the answer that it would have got.

`LAMINA_KILLS` is the number of kills; the night has a thousand."""

import contextlib
import json
import os
import random
import re
import signal
import struct
import threading
import time
import urllib.request

import numpy as np
import pytest
from serving import Live
from test_serve_tools import NOW, TEMPLATE, TOOL

KILLS = int(os.environ.get("LAMINA_KILLS", "4"))
PROMPT = "Once upon a time there was a little"
MESSAGES = [{"role": "user", "content": "Tell me of a girl and her dog."}]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 60}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}
LONG = {"temperature": 1, "ignore_eos": True}

CASES = {
    "openai n=3 logprobs": ("/v1/chat/completions", {
        "messages": MESSAGES, "stream": True, "n": 3, "seed": 5, "max_tokens": 60, "logprobs": True, "top_logprobs": 2,
        "stream_options": {"include_usage": True}, **LONG}),
    "openai whole n=2": ("/v1/chat/completions", {
        "messages": MESSAGES, "n": 2, "seed": 6, "max_tokens": 80, "logprobs": True, "top_logprobs": 1, **LONG}),
    "openai schema": ("/v1/chat/completions", {
        "messages": MESSAGES, "seed": 7, "temperature": 1.2, "max_tokens": 200,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}),
    "openai schema stream": ("/v1/chat/completions", {
        "messages": MESSAGES, "seed": 8, "temperature": 1.2, "max_tokens": 200, "stream": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}),
    "openai tools stream": ("/v1/chat/completions", {
        "messages": MESSAGES, "seed": 9, "max_tokens": 400, "stream": True, "tools": [NOW, TOOL], "tool_choice": "required"}),
    "completions penalties": ("/v1/completions", {
        "prompt": PROMPT, "seed": 3, "max_tokens": 120, "stream": True, "repetition_penalty": 1.3, "presence_penalty": 0.5,
        "dry_multiplier": 0.8, "stop": ["zzzz", " giraffe"], **LONG}),
    "completions echo": ("/v1/completions", {
        "prompt": [PROMPT, "The dog"], "seed": 4, "max_tokens": 70, "echo": True, "logprobs": 2, **LONG}),
    "completions echo stream": ("/v1/completions", {
        "prompt": [PROMPT, "The dog"], "seed": 4, "n": 2, "max_tokens": 50, "echo": True, "logprobs": 2, "stream": True, **LONG}),
    "completions stop": ("/v1/completions", {
        "prompt": PROMPT, "seed": 2, "max_tokens": 200, "stream": True, "stop": ["the dog", " said"], **LONG}),
    "completions greedy drafts": ("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 150, "ignore_eos": True}),
    "responses": ("/v1/responses", {"input": "Tell me of a dog.", "seed": 11, "max_output_tokens": 90, "stream": True, **LONG}),
    "anthropic": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 90, "stream": True, "temperature": 0}),
    "anthropic tools": ("/v1/messages", {
        "messages": MESSAGES, "temperature": 0, "max_tokens": 400, "stream": True, "tool_choice": {"type": "any"},
        "tools": [{"name": "rain", "description": "d", "input_schema": TOOL["function"]["parameters"]}]}),
    "anthropic whole": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 90, "temperature": 0}),
    "ollama chat": ("/api/chat", {"model": "lamina-tiny", "messages": MESSAGES, "options": {"seed": 15, "num_predict": 90, **LONG}}),
    "ollama generate": ("/api/generate", {
        "model": "lamina-tiny", "prompt": PROMPT, "stream": False, "options": {"seed": 16, "num_predict": 90, **LONG}}),
    "native mirostat": ("/completion", {
        "prompt": PROMPT, "seed": 17, "n_predict": 120, "stream": True, "mirostat": 2, "mirostat_tau": 4.0, "n_probs": 2, **LONG}),
    "native whole": ("/completion", {"prompt": PROMPT, "seed": 18, "n_predict": 100, "xtc_probability": 0.5, **LONG}),
    "adapter": ("/v1/completions", {
        "prompt": PROMPT, "seed": 19, "max_tokens": 120, "stream": True, "lora": {"poet": 1.0}, "logprobs": 2, **LONG}),
    "adapters n=2": ("/v1/completions", {
        "prompt": PROMPT, "seed": 20, "n": 2, "max_tokens": 80, "lora": {"poet": 0.5}, **LONG}),
    "compressed prompt": ("/v1/completions", {
        "prompt": PROMPT + " girl and her dog." * 30, "seed": 21, "max_tokens": 120, "stream": True, "compress": "snapkv:64", **LONG}),
    "shifted context": ("/v1/completions", {
        "prompt": PROMPT + " boy who had a cat." * 55, "seed": 22, "max_tokens": 300, "stream": True, "logprobs": 1, **LONG}),
    "compressed and shifted": ("/v1/completions", {
        "prompt": PROMPT + " boy who had a cat." * 55, "seed": 23, "max_tokens": 250, "compress": "snapkv:96", **LONG}),
    "embeddings": ("/v1/embeddings", {"input": [PROMPT, "a dog"]}),
    "tokenize": ("/tokenize", {"content": PROMPT}),
}

# What differs between two runs of one server: times, what was cached, and ids.
TIMES = re.compile(
    r'"(created|created_at|completed_at|cached_tokens|cache_read_input_tokens|cache_creation_input_tokens|input_tokens'
    r'|tokens_cached|tokens_evaluated|[a-z_]+_duration|obfuscation)":\s*("[^"]*"|[0-9.e+-]+)')
ID = re.compile(r'"((?:chatcmpl|cmpl|resp|msg|call|toolu|fc|rs)[-_][A-Za-z0-9]{20,})"')


def plain(text):
    """An answer without what differs between two runs: ids become their number in the order of their coming."""
    text = re.sub(r'"timings":\s*\{[^}]*\}', '"timings":{}', TIMES.sub(r'"\1":0', text))
    ids = {}
    text = ID.sub(lambda m: '"id-%d"' % ids.setdefault(m[1], len(ids)), text)
    lines = [line for line in text.splitlines() if line and not line.startswith(": ")]
    # Several answers grow side by side: which of two has its token first is a matter of time.
    return "\n".join(sorted(lines, key=lambda line: int(re.findall(r'"choices":\[\{"index":(\d+)', line + '"choices":[{"index":99')[0])))


def adapter(folder):
    """An adapter as PEFT saves them, with random matrices of rank 2 for the queries of the model inside the package."""
    random, header, data = np.random.default_rng(1), {}, b""
    for layer in range(4):
        for half, shape in (("lora_A", (2, 256)), ("lora_B", (256, 2))):
            values = random.normal(0, 0.1, shape).astype("<f4").tobytes()
            name = f"base_model.model.model.layers.{layer}.self_attn.q_proj.{half}.weight"
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 8}))
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    template = tmp_path_factory.mktemp("template") / "template.jinja"
    template.write_text(TEMPLATE)
    poet = adapter(tmp_path_factory.mktemp("poet"))
    options = ("--draft", "ngram", "--chat-template", template, "--lora", f"poet={poet}@0", "--context", 512, "--context-shift", 8)
    with Live("--replicas", 2, "--threads", 1, *options) as live:
        wait(lambda: all(r["state"] == "up" for r in replicas(live)))
        yield live


@pytest.fixture(scope="module")
def alone(server):
    """All answers of a service that nobody disturbs."""
    return {name: ask(server, name) for name in CASES}


def ask(server, name):
    path, body = CASES[name]
    status, _, text = server.request(path, body)
    assert status == 200, (name, text)
    return plain(text)


def replicas(server):
    return json.loads(server.get("/replicas")[1])


def wait(done, seconds=60):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


def moved(server, why):
    lines = server.get("/metrics")[1].splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if "requests_moved" in line and f'why="{why}"' in line)


class Clients:
    """Clients that ask all cases again and again, each beside the others."""

    def __init__(self, server, alone, names, count=6):
        self.server, self.alone, self.over = server, alone, threading.Event()
        self.answers, self.wrong = 0, []
        self.threads = [threading.Thread(target=self._run, args=(names, i)) for i in range(count)]

    def _run(self, names, seed):
        order = random.Random(seed)
        while not self.over.is_set():
            name = order.choice(names)
            try:
                got = ask(self.server, name)
            except Exception as error:
                got = repr(error)
            self.answers += 1
            if got != self.alone[name]:
                self.wrong.append((name, self.alone[name], got))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def check(clients):
    for name, want, got in clients.wrong[:3]:
        at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
        print(f"{name}: differs at {at}:\n  {want[max(0, at - 200) : at + 200]!r}\n  {got[max(0, at - 200) : at + 200]!r}")
    assert not clients.wrong, f"{len(clients.wrong)} of {clients.answers} answers: {sorted({w[0] for w in clients.wrong})}"


def test_answers_go_on_where_replicas_are_killed(server, alone):
    order, killed = random.Random(os.environ.get("LAMINA_KILL_SEED", "1")), 0
    before = moved(server, "lost")
    with Clients(server, alone, list(CASES)) as clients:
        while killed < KILLS:
            time.sleep(order.uniform(0.1, 2.0))
            up = [r for r in replicas(server) if r["state"] == "up"]
            busy = [r for r in up if r["running"]]
            if len(up) == 2 and busy:
                # One that was killed before may be listed for a moment.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(order.choice(busy)["pid"], signal.SIGKILL)
                    killed += 1
    print(f"{killed} kills, {clients.answers} answers, {moved(server, 'lost') - before:.0f} moves, {len(clients.wrong)} wrong")
    check(clients)
    assert moved(server, "lost") > before


def test_answers_go_on_where_replicas_are_renewed_or_stopped(server, alone):
    wait(lambda: all(r["state"] == "up" for r in replicas(server)))
    names = [name for name in CASES if name not in ("embeddings", "tokenize")]
    with Clients(server, alone, names) as clients:
        time.sleep(0.5)
        old = replicas(server)[0]
        wait(lambda: replicas(server)[0]["running"])
        assert server.request("/replicas/0", {})[0] == 200
        wait(lambda: replicas(server)[0]["state"] == "up" and replicas(server)[0]["pid"] != old["pid"])
        wait(lambda: replicas(server)[1]["running"])
        pid = replicas(server)[1]["pid"]
        os.kill(pid, signal.SIGSTOP)
        wait(lambda: replicas(server)[1]["state"] == "silent")
        os.kill(pid, signal.SIGCONT)
        wait(lambda: replicas(server)[1]["state"] == "up")
        assert replicas(server)[1]["pid"] == pid
    check(clients)
    assert moved(server, "leave") and moved(server, "silent")
    assert server.request("/replicas/7", {})[0] == 404


def test_an_answer_goes_on_in_its_middle(server):
    """A reader that is slow holds the engine back: the replica is killed while it makes the answer that is being read."""
    wait(lambda: all(r["state"] == "up" for r in replicas(server)))
    body = {"prompt": PROMPT, "seed": 1, "n": 4, "max_tokens": 400, "logprobs": 20, "stream": True, **LONG}
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    texts = []
    for kill in (False, True):
        with urllib.request.urlopen(request, timeout=120) as response:
            text = response.read(100_000)
            if kill:
                [busy] = [r for r in replicas(server) if r["running"]]
                before = moved(server, "lost")
                os.kill(busy["pid"], signal.SIGKILL)
            texts.append(plain((text + response.read()).decode()))
    assert texts[0] == texts[1] and moved(server, "lost") == before + 1
    assert texts[0].count('"finish_reason":"length"') == 4


def test_what_is_about_the_whole_service(server):
    wait(lambda: all(r["state"] == "up" for r in replicas(server)))
    assert server.get("/ready") == (200, '{"status":"ok"}')
    slots = json.loads(server.get("/slots")[1])
    assert [slot["id"] for slot in slots] == list(range(128)) and slots[64]["replica"] == 1
    assert server.request("/v1/nothing", {})[0] == 404
    status, body = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": -1})
    assert status == 400 and "max_tokens" in json.dumps(body)
    # An answer is kept with the gateway: any replica goes on from it, also when that which made it has ended.
    status, first = server.post("/v1/responses", {"input": "Hello", "max_output_tokens": 5, "seed": 1})
    assert status == 200
    for replica in replicas(server):
        os.kill(replica["pid"], signal.SIGKILL)
    then = {"input": "More", "previous_response_id": first["id"], "max_output_tokens": 5, "seed": 1}
    status, second = server.post("/v1/responses", then)
    assert status == 200 and second["previous_response_id"] == first["id"], second
    assert json.loads(server.get("/v1/responses/" + first["id"])[1])["id"] == first["id"]
