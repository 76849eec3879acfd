"""Trained models say what transformers and llama.cpp say."""

import itertools
import json

import lamina
import numpy as np
import pytest


@pytest.fixture(scope="module", params=["folder", "gguf"])
def model(request, stories_folder, stories_gguf):
    path = stories_folder if request.param == "folder" else stories_gguf
    with lamina.LLM(path, progress=False) as llm:
        yield llm


@pytest.fixture(scope="module")
def reference(stories_folder):
    return json.loads((stories_folder / "reference.json").read_text())


def test_greedy_text(model, reference):
    ids = reference["greedy_ids"]
    out = model.generate(reference["prompt"], max_tokens=len(ids), temperature=0)
    assert out.tokens == ids
    assert reference["prompt"] + out.text == reference["text"]
    assert out.finish_reason == "length"
    assert out.usage == lamina.Usage(len(reference["prompt_ids"]), len(ids), out.usage.cached_tokens)


def test_greedy_ids(model, reference):
    ids = reference["greedy_ids"]
    assert model.generate(reference["prompt_ids"], max_tokens=len(ids), temperature=0).tokens == ids


# Figures of `shared/README.md`, from transformers; float32 end to end leaves far less than the 0.1 % allowed.
@pytest.mark.parametrize(("name", "cut", "loss"), [("babyllama105", 256, 0.6807), ("stories260k", 512, 1.3653)])
def test_loss_on_stories(shared, name, cut, loss):
    text = (shared / "text" / "tinystories.txt").read_text()
    tales = [tale.strip() for tale in text.split("<|endoftext|>")[:80]]
    total, tokens = 0.0, 0
    with lamina.LLM(shared / "models" / name, kv_dtype="f32", progress=False) as llm:
        for tale in tales:
            ids = llm.tokenize(tale, special=True)[:cut]
            logits = llm.logits(ids).astype(np.float64)[:-1]
            rows = np.arange(len(ids) - 1)
            peak = logits.max(1)
            total += float((peak + np.log(np.exp(logits - peak[:, None]).sum(1)) - logits[rows, ids[1:]]).sum())
            tokens += len(ids) - 1
    assert total / tokens == pytest.approx(loss, rel=1e-3)


def test_sorting(wordless, shared):
    """gpt-nano-sort sorts six digits; all 729 inputs as one batch."""
    prompts = [list(digits) for digits in itertools.product(range(3), repeat=6)]
    answers = wordless.generate(prompts, max_tokens=6, temperature=0)
    for prompt, answer in zip(prompts, answers):
        assert answer.tokens == sorted(prompt)
        assert (answer.text, answer.finish_reason) == ("", "length")


def test_learned_positions_end(shared):
    with pytest.raises(lamina.InvalidRequestError, match="context is 12.*11"):
        lamina.LLM(shared / "models" / "gpt-nano-sort", context=12, progress=False)
