"""Sounds in conversations, in every form in which they are given."""

import asyncio
import base64
import wave
from pathlib import Path

import lamina
import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "crates/sound/tests/files/sweep.wav"


@pytest.fixture(scope="module")
def llm(shared):
    with lamina.LLM(shared / "golden-vision" / "qwen2-audio", kv_dtype="f32", threads=2, progress=False) as model:
        yield model


def ask(llm, part, **options):
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "hear?"}]}]
    return llm.chat(messages, max_tokens=8, temperature=0, ignore_eos=True, **options)


@pytest.fixture(scope="module")
def samples():
    """The samples of the file, of 24 bits."""
    with wave.open(str(FILE)) as file:
        data = np.frombuffer(file.readframes(file.getnframes()), np.uint8).reshape(-1, 3)
    wide = np.zeros((len(data), 4), np.uint8)
    wide[:, 1:] = data
    return wide.view("<i4")[:, 0]


def test_all_forms_of_a_sound_are_the_same(llm, samples):
    data = FILE.read_bytes()
    text = base64.b64encode(data).decode()
    answer = ask(llm, {"type": "audio", "audio": FILE})
    assert answer.usage.prompt_tokens == 47, "as many as in the reference's prompt"
    forms = [
        {"type": "audio", "audio": str(FILE)},
        {"type": "audio", "audio": data},
        {"type": "audio", "audio": (samples, 16_000)},
        {"type": "audio", "audio": samples / np.float32(2**31), "sampling_rate": 16_000},
        {"type": "input_audio", "input_audio": {"data": text, "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{text}"}},
    ]
    for part in forms:
        assert ask(llm, part).tokens == answer.tokens, part["type"]
    assert ask(llm, {"type": "audio", "audio": (samples[:12_000], 8_000)}).usage.prompt_tokens == 47, "another rate"


def test_a_coroutine_hears_too(llm):
    messages = [{"role": "user", "content": [{"type": "audio", "audio": FILE}, {"type": "text", "text": "hear?"}]}]
    answer = asyncio.run(llm.achat(messages, max_tokens=4, temperature=0, ignore_eos=True))
    assert answer.tokens == ask(llm, messages[0]["content"][0]).tokens[:4]


def test_the_place_of_what_cannot_be_heard_is_named(llm, samples):
    wrong = [
        ({"type": "audio"}, "has no sound"),
        ({"type": "audio", "audio": b"RIFF"}, "this is no sound"),
        ({"type": "audio", "audio": samples}, "sampling_rate"),
        ({"type": "audio", "audio": (samples.reshape(2, -1), 16_000)}, "one channel"),
        ({"type": "audio", "audio": "https://example.org/a.wav"}, "sounds are not fetched"),
        ({"type": "input_audio", "input_audio": {"data": "!", "format": "wav"}}, "no base64 of a sound"),
    ]
    for part, why in wrong:
        with pytest.raises(lamina.InvalidRequestError, match=why) as error:
            ask(llm, part)
        assert "messages[0].content[0]" in str(error.value)


MARKED = "<|audio_bos|><|AUDIO|><|audio_eos|>hear?"


def test_prompts_take_sounds_where_their_markers_stand(llm, samples, tmp_path):
    options = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}
    one = llm.generate(MARKED, sounds=[FILE], **options)
    assert one.usage.audio_tokens == llm.sound_tokens(FILE) == one.sounds[0].tokens == 37
    assert one.sounds[0].seconds == 1.5 and one.images == []
    assert llm.sound_rows(FILE).shape == (37, llm.info.hidden)
    both = llm.generate([MARKED, "no sound"], sounds=[[(samples, 16_000)], None], **options)
    assert both[0].tokens == one.tokens and both[0].sounds[0].cached and both[1].sounds == []
    stream = llm.stream(MARKED, sounds=[FILE], **options)
    assert [p.token for p in stream if p.token is not None] == one.tokens and stream.sounds[0].tokens == 37
    assert asyncio.run(llm.agenerate(MARKED, sounds=[FILE], **options)).tokens == one.tokens
    assert llm.generate("hear?", sounds=[FILE], **options).usage.prompt_tokens > 37, "without a marker it goes first"
    assert llm.save_state(tmp_path / "state", MARKED, sounds=[FILE]) > 0
    for given, why in [(FILE, "sounds takes a list of sounds"), ([b"no"], r"sounds\[0\]: this is no sound")]:
        with pytest.raises(lamina.InvalidRequestError, match=why):
            llm.generate(MARKED, sounds=given, **options)
    with pytest.raises(lamina.InvalidRequestError, match="a list of sounds for each of the 2 prompts"):
        llm.generate([MARKED, MARKED], sounds=[[FILE]], **options)


def test_a_model_says_what_it_hears(llm):
    hearing = llm.info.hearing
    assert (hearing.family, hearing.marker) == ("qwen2_audio", "<|AUDIO|>")
    assert (hearing.tokens_per_second, hearing.sampling_rate) == (25.0, 16_000) and llm.info.vision is None


def test_a_template_shows_where_a_sound_stands(llm):
    text = llm.apply_chat_template([{"role": "user", "content": [{"type": "audio", "audio": FILE}]}])
    assert text == "<|user|><|audio_bos|><|AUDIO|><|audio_eos|><|end|><|model|>"


def test_a_model_of_text_refuses_sounds(shared):
    with lamina.LLM(shared / "golden-vision" / "qwen2-vl", threads=1, progress=False) as model:
        with pytest.raises(lamina.InvalidRequestError, match=r"messages\[0\]\.content\[0\].*does not hear"):
            ask(model, {"type": "audio", "audio": FILE})


def test_a_sound_that_the_context_does_not_hold_is_refused_unheard(shared):
    with lamina.LLM(shared / "golden-vision" / "qwen2-audio", context=32, threads=1, progress=False) as model:
        with pytest.raises(lamina.LaminaError, match="47 tokens, those of its sounds are .*holds 32: give fewer or shorter sounds"):
            ask(model, {"type": "audio", "audio": FILE})
