"""Text to tokens and back."""

import lamina
import numpy as np
import pytest

TEXTS = [
    "Once upon a time",
    "  two  spaces and a tab\t.",
    "line\nbreaks\r\n\n",
    "żółć 💚 日本語 ﷽ e\u0301",
    "\x00\x01 control",
    "x" * 5000,
    "",
]


@pytest.fixture(scope="module")
def model(stories_gguf):
    """The SentencePiece file of the folder's model joins repeated spaces, by its own setting; this one keeps them."""
    with lamina.LLM(stories_gguf, progress=False) as llm:
        yield llm


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: repr(t[:12]))
def test_round_trip(model, text):
    ids = model.tokenize(text)
    assert all(type(i) is int for i in ids)
    assert model.detokenize(ids) == text
    assert model.detokenize(np.array(ids, np.int32)) == text


def test_texts_of_the_world(model, shared):
    text = (shared / "text" / "multilingual.txt").read_text()[:50_000]
    assert model.detokenize(model.tokenize(text)) == text


def test_special(stories):
    """One trained model begins texts with <s> (1) and ends them with </s>, the other does both with <|endoftext|> (0)."""
    begin, (end,) = stories.tokenize("", special=True), stories.info.end_tokens
    word = {2: "</s>", 0: "<|endoftext|>"}[end]
    assert begin == [{2: 1, 0: 0}[end]]
    assert stories.tokenize("hi", special=True) == [*begin, *stories.tokenize("hi")]
    assert end in stories.tokenize(f"hi{word}", special=True)[1:]
    assert end not in stories.tokenize(f"hi{word}")
    assert stories.detokenize([*begin, *stories.tokenize("hi"), end]) == "hi"


def test_a_prompt_begins_like_special_text(stories):
    by_text = stories.generate("hi", max_tokens=9, temperature=0)
    by_ids = stories.generate(stories.tokenize("hi", special=True), max_tokens=9, temperature=0)
    assert by_text.tokens == by_ids.tokens
    assert by_text.usage.prompt_tokens == 1 + len(stories.tokenize("hi"))
