"""Pictures through clients that people have, unchanged, beside a live server; and through replicas that are killed."""

import base64
import json
import os
import signal
import threading

import pytest
from serving import Live
from test_replicas import moved, replicas, wait

QUESTION = "What is it?"
TOKENS = 12


@pytest.fixture(scope="module")
def eyes(shared):
    folder = shared / "golden-vision" / "qwen2-vl"
    if not folder.exists():
        pytest.skip("no fixture of a model that sees")
    return folder


@pytest.fixture(scope="module")
def picture(shared, eyes):
    return (shared / "golden-vision" / "images" / "wide.png").read_bytes()


@pytest.fixture(scope="module")
def live(eyes):
    with Live("--log-format", "json", model=eyes) as server:
        yield server


def url(picture):
    return "data:image/png;base64," + base64.b64encode(picture).decode()


def body(picture, **more):
    parts = [{"type": "image_url", "image_url": {"url": url(picture)}}, {"type": "text", "text": QUESTION}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": TOKENS, "temperature": 0, **more}


@pytest.fixture(scope="module")
def answer(live, picture):
    status, _, text = live.request("/v1/chat/completions", body(picture))
    assert status == 200, text
    return json.loads(text)


def test_openai(live, picture, answer):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=live.url + "/v1", api_key="none", max_retries=0) as client:
        chat = client.chat.completions.create(model="any", **body(picture))
        assert chat.choices[0].message.content == answer["choices"][0]["message"]["content"]
        assert chat.usage.prompt_tokens_details.image_tokens > 0
        parts = [{"type": "input_image", "image_url": url(picture), "detail": "auto"}, {"type": "input_text", "text": QUESTION}]
        response = client.responses.create(
            model="any", input=[{"role": "user", "content": parts}], max_output_tokens=TOKENS, temperature=0)
        assert response.output_text == chat.choices[0].message.content
        assert response.usage.input_tokens == chat.usage.prompt_tokens


def test_anthropic(live, picture, answer):
    anthropic = pytest.importorskip("anthropic")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture).decode()}
    content = [{"type": "image", "source": source}, {"type": "text", "text": QUESTION}]
    messages = [{"role": "user", "content": content}]
    with anthropic.Anthropic(base_url=live.url, api_key="none", max_retries=0) as client:
        counted = client.messages.count_tokens(model="any", messages=messages)
        assert counted.input_tokens == answer["usage"]["prompt_tokens"]
        message = client.messages.create(model="any", messages=messages, max_tokens=TOKENS, extra_body={"temperature": 0})
        assert "".join(block.text for block in message.content) == answer["choices"][0]["message"]["content"]


def test_ollama(live, picture, answer):
    ollama = pytest.importorskip("ollama")
    options = {"temperature": 0, "num_predict": TOKENS}
    with ollama.Client(host=live.url) as client:
        said = answer["choices"][0]["message"]["content"]
        messages = [{"role": "user", "content": QUESTION, "images": [picture]}]
        assert client.chat(model="any", messages=messages, options=options).message.content == said
        assert client.generate(model="any", prompt=QUESTION, images=[picture], options=options).response == said
        assert "vision" in client.show("any").capabilities


def test_the_log_tells_sizes_and_never_the_picture(live, picture, answer):
    wait(lambda: any('"image_tokens"' in line for line in live.log))
    line = json.loads(next(line for line in live.log if '"image_tokens"' in line))
    assert line["pictures"] == "96x64" and line["image_tokens"] == answer["usage"]["prompt_tokens_details"]["image_tokens"]
    letters = base64.b64encode(picture).decode()[100:140]
    assert not any(letters in line for line in live.log)


def test_a_picture_goes_on_in_another_replica(eyes, picture, live):
    asked = body(picture, seed=3, max_tokens=900, temperature=1, ignore_eos=True, stream=True)
    _, _, alone = live.request("/v1/chat/completions", asked)
    told = "".join(said(alone))
    assert answered_elsewhere(eyes, asked)[0] == told


def answered_elsewhere(model, asked):
    """The text of an answer whose replica was killed, and what the server counts then."""
    with Live("--replicas", "2", model=model) as server:
        wait(lambda: [r["state"] for r in replicas(server)] == ["up", "up"])
        got = []
        asking = threading.Thread(target=lambda: got.append(server.request("/v1/chat/completions", asked)))
        asking.start()
        wait(lambda: any(r["running"] for r in replicas(server)))
        os.kill(next(r["pid"] for r in replicas(server) if r["running"]), signal.SIGKILL)
        asking.join()
        status, _, text = got[0]
        assert status == 200 and moved(server, "lost") == 1, text
        return "".join(said(text)), server.request("/metrics")[2]


def said(stream):
    for line in stream.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"].get("content") or ""
