"""`lamina.Server`: the same engine, over HTTP."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import lamina
import pytest


@pytest.fixture(scope="module")
def llm():
    with lamina.LLM(progress=False) as llm:
        yield llm


@pytest.fixture(scope="module")
def server(llm):
    with lamina.Server({"tiny": llm}, port=0) as server:
        yield server


def ask(url, path, body=None, headers=()):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json", **dict(headers)})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_answers_are_those_of_the_engine(llm, server):
    want = llm.generate("Once upon a time", max_tokens=12, seed=5).text
    body = {"prompt": "Once upon a time", "max_tokens": 12, "seed": 5}
    assert ask(server.url, "/v1/completions", body)["choices"][0]["text"] == want
    messages = [{"role": "user", "content": "Hello"}]
    want = llm.chat(messages, max_tokens=8, seed=1).text
    answer = ask(server.url, "/v1/chat/completions", {"messages": messages, "max_tokens": 8, "seed": 1})
    assert answer["choices"][0]["message"]["content"] == want
    assert [m["id"] for m in ask(server.url, "/v1/models")["data"]] == ["tiny"]


def test_prompts_are_compressed_where_a_request_says_so(llm, server):
    prompt = "Once upon a time there was a little girl who liked to play in the park with her dog. " * 4
    options = {"max_tokens": 12, "seed": 5, "compress": "snapkv:40,window=8"}
    want = llm.generate(prompt, **options).text
    assert ask(server.url, "/v1/completions", {"prompt": prompt, **options})["choices"][0]["text"] == want
    with pytest.raises(urllib.error.HTTPError) as wrong:
        ask(server.url, "/v1/completions", {"prompt": prompt, "compress": "h2o:1"})
    assert wrong.value.code == 400 and "compress is h2o:1," in wrong.value.read().decode()


def test_the_address_says_where(server):
    assert server.url == f"http://127.0.0.1:{server.port}" and server.port > 0
    assert repr(server) == f"Server({server.url!r})"


def test_options_are_those_of_the_command(llm):
    params = lamina.SamplingParams(temperature=0)
    with lamina.Server(llm, port=0, api_keys=["k"], no_slots=True, sampling_params=params) as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server.url, "/v1/models")
        with refused.value as answer:
            assert answer.code == 401
        props = ask(server.url, "/props", headers={"x-api-key": "k"}.items())
        assert props["default_generation_settings"]["params"]["temperature"] == 0
    with pytest.raises(lamina.InvalidRequestError, match="nearest known one is `port`"):
        lamina.Server(llm, prot=0)
    with pytest.raises(lamina.InvalidRequestError, match="sse_ping"):
        lamina.Server(llm, sse_ping="soon")
    with pytest.raises(lamina.ModelError):
        lamina.Server("/nowhere/model.gguf", port=0)


def test_a_closed_server_is_gone_and_its_model_is_not(llm):
    server = lamina.Server(llm, port=0)
    server.close()
    server.close()
    with pytest.raises(urllib.error.URLError):
        ask(server.url, "/health")
    assert llm.generate("Once", max_tokens=2).text is not None


def start_command(*args):
    command = [sys.executable, "-m", "lamina", "serve", "--port", "0", *args]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line.strip())
        if line.startswith("ready: "):
            break
    url = next(line.split()[-1] for line in lines if line.startswith("listening on "))
    return process, url


def test_the_command_ends_in_good_order():
    process, url = start_command()
    assert ask(url, "/health") == {"status": "ok"}
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_command_refuses_in_one_line():
    command = [sys.executable, "-m", "lamina", "serve", "/nowhere/model.gguf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
