"""Sounds through clients that people have, unchanged, beside a live server; and through replicas that are killed."""

import base64
import json
from pathlib import Path

import lamina
import pytest
from serving import Live
from test_replicas import wait
from test_serve_pictures import answered_elsewhere, said

QUESTION = "hear?"
TOKENS = 12
FILE = Path(__file__).parents[2] / "crates/sound/tests/files/sweep.wav"
LETTERS = base64.b64encode(FILE.read_bytes()).decode()
PART = {"type": "input_audio", "input_audio": {"data": LETTERS, "format": "wav"}}


@pytest.fixture(scope="module")
def ears(shared):
    folder = shared / "golden-vision" / "qwen2-audio"
    if not folder.exists():
        pytest.skip("no fixture of a model that hears")
    return folder


@pytest.fixture(scope="module")
def live(ears):
    with Live("--log-format", "json", model=ears) as server:
        yield server


def body(**more):
    parts = [PART, {"type": "text", "text": QUESTION}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": TOKENS, "temperature": 0, **more}


def test_openai_hears_what_python_hears(live, ears):
    openai = pytest.importorskip("openai")
    with lamina.LLM(ears, threads=2, progress=False) as llm:
        alone = llm.chat(body()["messages"], max_tokens=TOKENS, temperature=0)
    with openai.OpenAI(base_url=live.url + "/v1", api_key="none", max_retries=0) as client:
        chat = client.chat.completions.create(model="any", **body())
        assert chat.choices[0].message.content == alone.text
        assert chat.usage.prompt_tokens == alone.usage.prompt_tokens
        assert chat.usage.prompt_tokens_details.audio_tokens > 0
        linked = {"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64," + LETTERS}}
        messages = [{"role": "user", "content": [linked, {"type": "text", "text": QUESTION}]}]
        stream = client.chat.completions.create(
            model="any", messages=messages, max_tokens=TOKENS, temperature=0, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == alone.text
        with pytest.raises(openai.BadRequestError, match=r"messages\[0\]\.content\[0\].*no sound"):
            wrong = {"type": "input_audio", "input_audio": {"data": "aGFsbG8=", "format": "wav"}}
            client.chat.completions.create(model="any", messages=[{"role": "user", "content": [wrong]}])
        response = client.responses.create(
            model="any", input=[{"role": "user", "content": [PART, {"type": "input_text", "text": QUESTION}]}],
            max_output_tokens=TOKENS, temperature=0)
        assert response.output_text == alone.text


def test_the_log_tells_lengths_and_never_the_sound(live):
    assert live.request("/v1/chat/completions", body())[0] == 200
    wait(lambda: any('"audio_tokens"' in line for line in live.log))
    line = json.loads(next(line for line in live.log if '"audio_tokens"' in line))
    assert line["sounds"] == "1.50" and line["audio_tokens"] > 0 and "encode_ms" in line
    assert not any(LETTERS[200:240] in line for line in live.log)


def test_a_sound_goes_on_in_another_replica(live, ears):
    asked = body(seed=3, max_tokens=400, ignore_eos=True, stream=True)
    asked["temperature"] = 1
    _, _, alone = live.request("/v1/chat/completions", asked)
    told = "".join(said(alone))
    text, metrics = answered_elsewhere(ears, asked)
    assert text == told and 'lamina:sounds_total{model_name="qwen2-audio"} 1' in metrics
