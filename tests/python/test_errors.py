"""Refusals: each names the thing and says what to do, and the process and the model live on."""

import json
import pickle
import shutil

import lamina
import numpy as np
import pytest

PROMPTS = [
    (None, "prompt takes token ids"),
    (7, "7 was given"),
    (1.5, "1.5 was given"),
    (b"bytes", "decode them first"),
    ({"a": 1}, "prompt takes token ids"),
    ([1, -1], "-1 at position 1"),
    ([1, 2**40], "at position 1"),
    ([1, 2**80], "prompt takes token ids"),
    ([1, 2.0], "whole numbers"),
    ([1, None], "whole numbers"),
    ([1, "a"], "whole numbers"),
    ([True, False], "whole numbers"),
    (np.array([0.5]), "whole numbers"),
    (np.array(3), "whole numbers"),
    (np.zeros((2, 2, 2), int), "flat list"),
    ([[1, 2], [3.5]], r"prompt\[1\]"),
    (["a", 5], r"prompt\[1\]"),
    ([[]], r"prompt\[0\].*empty"),
    ("\ud800x", "surrogate"),
    (["fine", "x\udfff"], r"prompt\[1\].*at 1.*surrogate"),
    ([5000], "5000 is not in the vocabulary of (512|2048)"),
    ([1] * 513, "513 tokens.*context holds 512"),
    ("word " * 100_000, "context holds 512"),
    (["fine", [1] * 600], r"prompt\[1\].*600 tokens"),
]

OPTIONS = [
    ({"max_tokens": -5}, "max_tokens is -5"),
    ({"max_tokens": 1.5}, "max_tokens takes a whole number"),
    ({"max_tokens": True}, "max_tokens takes a whole number"),
    ({"n": 0}, "n is 0"),
    ({"n": 257}, "n is 257"),
    ({"temperature": "hot"}, "temperature.*'hot'"),
    ({"temperature": float("nan")}, "temperature = NaN"),
    ({"top_p": 1.5}, "top_p = 1.5.*0 to 1"),
    ({"top_k": 1.5}, "top_k takes a whole number"),
    ({"top_k": True}, "top_k.*True"),
    ({"top_k": 2**70}, "top_k"),
    ({"seed": "x"}, "seed.*'x'"),
    ({"seed": 2**63}, "seed"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"logit_bias": {"a": 1.0}}, "logit_bias"),
    ({"logit_bias": {-1: 1.0}}, "logit_bias"),
    ({"logit_bias": {5000: 1.0}}, "5000.*(512|2048)"),
    ({"logit_bias": {True: 1.0}}, "logit_bias"),
    ({"logprobs": -2}, "logprobs"),
    ({"stop": [""]}, "stop string"),
    ({"stop": 5}, "stop takes text"),
    ({"stop": ["a", 5]}, r"stop\[1\]"),
    ({"stop": "\ud800"}, "surrogate"),
    ({"dry_sequence_breakers": [1]}, "dry_sequence_breakers"),
    ({"echo": 1}, "echo takes True or False"),
    ({"ignore_eos": "no"}, "ignore_eos takes True or False"),
    ({"sampling_params": {"top_k": 1}}, "sampling_params takes lamina.SamplingParams"),
]


@pytest.mark.parametrize(("prompt", "message"), PROMPTS, ids=lambda v: str(v)[:30])
def test_prompts(stories, prompt, message):
    with pytest.raises(lamina.InvalidRequestError, match=message):
        stories.generate(prompt, max_tokens=2)
    assert stories.generate("alive", max_tokens=1).tokens


@pytest.mark.parametrize(("options", "message"), OPTIONS, ids=str)
def test_options(stories, options, message):
    with pytest.raises(lamina.InvalidRequestError, match=message):
        stories.generate("x", **{"max_tokens": 2, **options})
    with pytest.raises(lamina.InvalidRequestError, match=message):
        list(stories.stream("x", **{"max_tokens": 2, **options}))
    assert stories.generate("alive", max_tokens=1).tokens


@pytest.mark.parametrize(
    ("name", "hint"), [("temprature", "temperature"), ("max_new_tokens", "max_tokens"), ("qqq", "'qqq'")]
)
def test_unknown_options(stories, name, hint):
    for call in (stories.generate, stories.stream, lamina.SamplingParams):
        with pytest.raises(TypeError, match=hint):
            call(*([] if call is lamina.SamplingParams else ["x"]), **{name: 1})


LOADS = [
    ({"device": "tpu"}, lamina.InvalidRequestError, "tpu.*auto"),
    ({"device": "cuda:99"}, lamina.UnsupportedError, "^cuda: "),
    ({"kv_dtype": "f64"}, lamina.InvalidRequestError, "f64.*q8_0"),
    ({"dtype": "q9"}, lamina.InvalidRequestError, "q9"),
    ({"context": 0}, lamina.InvalidRequestError, "context is 0"),
    ({"context": "long"}, lamina.InvalidRequestError, "context takes a whole number"),
    ({"context": 2**31 - 1}, lamina.OutOfMemoryError, "context of 2147483647"),
    ({"threads": 0}, lamina.InvalidRequestError, "threads is 0"),
    ({"threads": 100_000}, lamina.InvalidRequestError, "threads is 100000"),
    ({"seed": -2}, lamina.InvalidRequestError, "seed is -2"),
]


@pytest.mark.parametrize(("options", "error", "message"), LOADS, ids=str)
def test_loading_options(stories_folder, options, error, message):
    with pytest.raises(error, match=message):
        lamina.LLM(stories_folder, progress=False, **options)


def test_paths(tmp_path, stories_folder):
    with pytest.raises(lamina.ModelError, match="nowhere"):
        lamina.LLM(tmp_path / "nowhere")
    with pytest.raises(OSError):
        lamina.LLM(str(tmp_path / "nowhere.gguf"))
    with pytest.raises(lamina.ModelError, match=tmp_path.name):
        lamina.LLM(tmp_path)
    for path in (5, ["model"], b"\xff" if False else object()):
        with pytest.raises(TypeError):
            lamina.LLM(path)
    with pytest.raises((lamina.LaminaError, ValueError)):
        lamina.LLM("nul\0byte")


def test_broken_files(tmp_path, stories_folder, stories_gguf):
    data = stories_gguf.read_bytes()
    for name, content in {
        "empty.gguf": b"",
        "text.gguf": b"hello",
        "cut.gguf": data[: len(data) // 2],
        "magic.gguf": b"GGUF" + bytes(20),
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((lamina.FormatError, lamina.ModelError, lamina.UnsupportedError), match=name):
            lamina.LLM(tmp_path / name, progress=False)
    folder = tmp_path / "folder"
    shutil.copytree(stories_folder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").chmod(0o644)
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["Martian"], "model_type": "martian"}))
    with pytest.raises(lamina.UnsupportedError, match="(?i)martian"):
        lamina.LLM(folder, progress=False)


def test_without_a_tokenizer(wordless):
    for call in (
        lambda: wordless.generate("text"),
        lambda: wordless.stream("text"),
        lambda: wordless.tokenize("text"),
        lambda: wordless.detokenize([1]),
        lambda: wordless.logits("text"),
        lambda: wordless.embed("text"),
        lambda: wordless.perplexity("text"),
        lambda: wordless.chat([{"role": "user", "content": "x"}]),
        lambda: wordless.generate([1], stop="x"),
        lambda: wordless.generate([1], echo=True, max_tokens=1),
    ):
        with pytest.raises(lamina.InvalidRequestError, match="no tokenizer"):
            call()
    assert len(wordless.generate([1, 2], max_tokens=3).tokens) == 3


def test_after_close(stories_folder):
    llm = lamina.LLM(stories_folder, progress=False)
    stream = llm.stream("Once", ignore_eos=True)
    llm.close()
    llm.close()
    with pytest.raises(lamina.LaminaError, match="closed"):
        list(stream)
    for call in (
        lambda: llm.generate("x"),
        lambda: llm.stream("x"),
        lambda: llm.tokenize("x"),
        lambda: llm.logits([1]),
        lambda: llm.config,
        lambda: llm.chat([{"role": "user", "content": "x"}]),
    ):
        with pytest.raises(lamina.LaminaError, match="closed"):
            call()
    assert llm.info.vocab == 512, "what was known stays known"
    assert "stories260k" in repr(llm)


def test_classes():
    for name, base in [
        ("ModelError", OSError),
        ("FormatError", lamina.LaminaError),
        ("UnsupportedError", lamina.LaminaError),
        ("OutOfMemoryError", MemoryError),
        ("DeviceLostError", lamina.LaminaError),
        ("InvalidRequestError", ValueError),
    ]:
        error = getattr(lamina, name)
        assert issubclass(error, lamina.LaminaError) and issubclass(error, base)
        copy = pickle.loads(pickle.dumps(error("what, where")))
        assert type(copy) is error and str(copy) == "what, where"
