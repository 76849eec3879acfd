"""Answers that were cut and go on, beside the same answers in one go."""

import json

import lamina
import pytest

PROMPT = "Once upon a time there was a little"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer"}}}
KINDS = {
    "greedy": {"temperature": 0},
    "sampled": {"seed": 7, "temperature": 1.3, "top_p": 0.95},
    "xtc": {"seed": 7, "temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    "mirostat": {"seed": 3, "mirostat": 2, "mirostat_tau": 4.0},
    "penalties": {"seed": 3, "repetition_penalty": 1.3, "presence_penalty": 0.5, "dry_multiplier": 0.8},
    "schema": {"seed": 11, "temperature": 1.5, "json_schema": SCHEMA, "ignore_eos": False},
    "stop": {"seed": 2, "temperature": 1.5, "stop": ["the", " said"]},
    "drafts": {"seed": 5, "temperature": 0.8, "speculate": 3},
}


@pytest.fixture(scope="module")
def model():
    with lamina.LLM(progress=False, draft="ngram") as llm:
        yield llm


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_goes_on_to_the_same_tokens(model, kind):
    options = {"ignore_eos": True, "logprobs": 1, **KINDS[kind]}
    whole = model.generate(PROMPT, max_tokens=48, **options)
    assert len(whole.tokens) > 8
    for first in (1, 7, len(whole.tokens) - 1):
        cut = model.generate(PROMPT, max_tokens=first, **options)
        assert cut.finish_reason == "length"
        state = json.loads(json.dumps(cut.state))
        # In three pieces; the last has room for more than there is.
        then = model.generate(PROMPT, max_tokens=1, resume=state, **options)
        tokens, logprobs = cut.tokens + then.tokens, cut.logprobs + then.logprobs
        if then.finish_reason == "length":
            rest = model.generate(PROMPT, max_tokens=48 - first - 1, resume=then, **options)
            tokens, logprobs = tokens + rest.tokens, logprobs + rest.logprobs
            assert rest.state["tokens"] == tokens and rest.finish_reason == whole.finish_reason
        assert (tokens, logprobs) == (whole.tokens, whole.logprobs)


def test_a_seed_that_nobody_gave_goes_on(model):
    cut = model.generate(PROMPT, max_tokens=5, temperature=1.5, ignore_eos=True)
    again = [model.generate(PROMPT, max_tokens=9, temperature=1.5, ignore_eos=True, resume=cut).tokens for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    "wrong", [7, "state", {"tokens": []}, {"tokens": [1], "seed": -1, "index": 0, "drawn": 0, "surprise": None}, {"more": 1}]
)
def test_wrong_states_are_refused(model, wrong):
    with pytest.raises(lamina.InvalidRequestError, match="resume"):
        model.generate(PROMPT, resume=wrong)


def test_what_has_ended_does_not_go_on(model):
    done = model.generate(PROMPT, max_tokens=60, temperature=0, choice=["girl", "boy"])
    assert done.finish_reason == "stop"
    with pytest.raises(lamina.InvalidRequestError, match="resume"):
        model.generate(PROMPT, resume=done, choice=["girl", "boy"])
    with pytest.raises(lamina.InvalidRequestError, match="resume"):
        model.generate([PROMPT, PROMPT], resume=done)
    with pytest.raises(lamina.InvalidRequestError, match="resume"):
        model.generate(PROMPT, resume=done, n=2)
