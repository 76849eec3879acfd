"""Guesses change no token, and what they did is told."""

import pytest

import lamina

PROMPT = "Tom and Lily went to the park. Tom and Lily saw a dog. Tom and Lily went to the park. Tom and"


@pytest.fixture(scope="module")
def plain():
    with lamina.LLM(threads=1, progress=False) as llm:
        yield llm


@pytest.fixture(scope="module")
def drafted():
    with lamina.LLM(threads=1, progress=False, draft="auto") as llm:
        yield llm


@pytest.mark.parametrize("speculate", [None, False, 1, 5, {"method": "ngram", "width": 8}, {"method": "suffix"},
                          {"width": 3, "branches": 3}])  # fmt: skip
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_answers_are_the_same(plain, drafted, speculate, temperature):
    options = {"max_tokens": 40, "temperature": temperature, "seed": 3, "logprobs": 2, "n": 2}
    want = plain.generate(PROMPT, **options)
    got = drafted.generate(PROMPT, **options, speculate=speculate)
    for a, b in zip(got.completions, want.completions):
        assert (a.tokens, a.text, a.logprobs, a.finish_reason) == (b.tokens, b.text, b.logprobs, b.finish_reason)


def test_what_was_guessed_is_told(plain, drafted):
    assert plain.info.draft is None
    assert drafted.info.draft == "ngram + suffix"
    assert plain.generate(PROMPT, max_tokens=9).speculation is None
    assert drafted.generate(PROMPT, max_tokens=9, speculate=False).speculation is None
    told = drafted.generate(PROMPT, max_tokens=40, temperature=0, speculate={"method": "ngram", "width": 4}).speculation
    assert told.method == "ngram"
    assert 0 < told.accepted <= told.drafted <= 4 * told.steps


@pytest.mark.parametrize(
    ("speculate", "problem"),
    [
        (-1, "speculate"),
        (65, "from 0 to 64"),
        ("ngram", "speculate"),
        ({"methods": 1}, "methods"),
        ({"method": "eagle"}, "loaded with: ngram, suffix"),
        ({"width": 1.5}, "width"),
        ({"branches": 0}, "branches"),
        ({"branches": 5}, "from 1 to 4"),
    ],
)
def test_wrong_values_are_refused(drafted, speculate, problem):
    with pytest.raises(lamina.InvalidRequestError, match=problem):
        drafted.generate(PROMPT, max_tokens=4, speculate=speculate)


def test_drafts_that_are_not_there_are_refused(plain):
    with pytest.raises(lamina.InvalidRequestError, match="draft is .*no-such"):
        lamina.LLM(progress=False, draft="no-such")
    with pytest.raises(lamina.InvalidRequestError, match="loaded with: none"):
        plain.generate(PROMPT, max_tokens=4, speculate=3)


def test_lookahead_changes_nothing_and_layers_that_are_not_there_are_refused(plain):
    with lamina.LLM(threads=1, progress=False, draft="lookahead") as llm:
        assert llm.info.draft == "ngram + lookahead"
        want = plain.generate(PROMPT, max_tokens=30, seed=5)
        assert llm.generate(PROMPT, max_tokens=30, seed=5, speculate=3).text == want.text
    with pytest.raises(lamina.InvalidRequestError, match="MTP"):
        lamina.LLM(progress=False, draft="mtp")
