"""Answers: batches, options, and what comes back."""

import lamina
import numpy as np
import pytest

ONCE = "Once upon a time"


def greedy(llm, prompt, n=40, **options):
    return llm.generate(prompt, max_tokens=n, temperature=0, **options)


def test_answer_continues_the_prompt(stories):
    whole = ONCE + greedy(stories, ONCE).text
    for cut in ("Once", "Once upon", "Once upon a"):
        assert whole.startswith(cut + greedy(stories, cut, 20).text)


def test_batch_gives_what_each_prompt_gives_alone(stories):
    prompts = [ONCE, "Lily", [1, 403, 407], np.array([1, 403]), range(3, 9), ""]
    together = greedy(stories, prompts)
    alone = [greedy(stories, p) for p in prompts]
    assert [a.tokens for a in together] == [a.tokens for a in alone]
    assert [a.text for a in together] == [a.text for a in alone]


def test_shape_follows_the_prompt(stories):
    assert isinstance(greedy(stories, ONCE, 1), lamina.Completion)
    assert isinstance(greedy(stories, [1, 2], 1), lamina.Completion)
    assert len(greedy(stories, [ONCE], 1)) == 1
    assert len(greedy(stories, [[1, 2]], 1)) == 1
    assert len(greedy(stories, np.ones((3, 2), np.int64), 1)) == 3
    assert stories.generate([]) == []


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.int64, np.uint64])
def test_numpy_ids(stories, kind):
    want = greedy(stories, [1, 100, 7]).tokens
    ids = np.array([1, 100, 7], kind)
    assert greedy(stories, ids).tokens == want
    assert greedy(stories, list(ids)).tokens == want
    assert greedy(stories, np.repeat(ids, 2)[::2]).tokens == want


def test_max_tokens(stories):
    for n in (1, 2, 17, np.int64(5)):
        out = greedy(stories, ONCE, n)
        assert len(out.tokens) == out.usage.completion_tokens == n
        assert out.finish_reason == "length"


def test_what_ended_an_answer(stories):
    assert greedy(stories, ONCE, 5).stop_reason == "max_tokens"
    assert stories.generate([1] * 500, temperature=0, ignore_eos=True).stop_reason == "context"
    assert greedy(stories, ONCE, 60, stop=["zebra", "She"]).stop_reason == "She"
    end = stories.info.end_tokens[0]
    assert stories.generate("Once", logit_bias={end: 100.0}).stop_reason == end


def test_scoring_a_prompt(stories):
    ids = stories.generate(ONCE, temperature=0, max_tokens=40).tokens
    prompt = [1, 100, 7, *ids]
    for n in (0, 3):
        out = stories.generate(prompt, max_tokens=n, echo=True, logprobs=2)
        assert len(out.tokens) == n and out.text.startswith(stories.detokenize(prompt))
        assert out.prompt_logprobs[0] is None and len(out.prompt_logprobs) == len(prompt)
        logits = stories.logits(prompt).astype(np.float64)
        peak = logits.max(axis=1, keepdims=True)
        logs = logits - peak - np.log(np.exp(logits - peak).sum(axis=1, keepdims=True))
        for i, (token, logprob, top) in enumerate(out.prompt_logprobs[1:], 1):
            assert token == prompt[i] and logprob == pytest.approx(logs[i - 1, token], abs=1e-5)
            assert list(top) == list(np.argsort(-logits[i - 1], kind="stable")[:2])
    assert stories.generate(ONCE, max_tokens=0).finish_reason == "length"
    assert stories.generate(ONCE, max_tokens=1, logprobs=1).prompt_logprobs is None


def test_context_ends_an_answer(stories):
    out = stories.generate([1] * 500, temperature=0, ignore_eos=True)
    assert out.usage.total_tokens == stories.info.context + 1, "the last token is never read again"
    assert out.finish_reason == "length"


def test_stop_strings_across_tokens(stories):
    text = greedy(stories, ONCE, 60).text
    for stop in (" little girl na", "She", ".", "to play", "ily. S"):
        out = greedy(stories, ONCE, 60, stop=stop)
        assert out.text == text[: text.index(stop)]
        assert out.finish_reason == "stop"
        assert stories.detokenize(out.tokens).rfind(stop[-1]) >= 0, "its tokens are there"
    first = min((text.index(s) + len(s), s) for s in ("play", "Lily", "loved"))[1]
    assert greedy(stories, ONCE, 60, stop=["play", "Lily", "loved"]).text == text[: text.index(first)]
    assert greedy(stories, ONCE, 60, stop=["zebra"]).text == text
    assert greedy(stories, ONCE, 60, stop=[]).text == text


def test_end_token(stories):
    """The token that ends an answer is neither in its tokens nor in its text, unless it is to be ignored."""
    (end,) = stories.info.end_tokens
    bias = {end: 1000.0}
    out = stories.generate(ONCE, max_tokens=5, logit_bias=bias)
    assert (out.text, out.tokens, out.finish_reason) == ("", [], "stop")
    out = stories.generate(ONCE, max_tokens=5, logit_bias={str(end): np.float32(1000)}, ignore_eos=True)
    assert (out.tokens, out.finish_reason) == ([end] * 5, "length")


def test_echo(stories):
    plain = greedy(stories, ONCE)
    assert greedy(stories, ONCE, echo=True).text == ONCE + plain.text
    ids = stories.tokenize(ONCE)
    assert greedy(stories, [ids, ids], echo=True)[1].text.startswith(ONCE)


def test_samples(stories):
    out = stories.generate(ONCE, n=4, max_tokens=30, temperature=1.0, seed=11)
    assert len(out.completions) == 4 and out.completions[0] is out
    assert [c.index for c in out.completions] == [0, 1, 2, 3]
    assert len({c.text for c in out.completions}) > 1, "each sample has a random stream of its own"
    again = stories.generate([ONCE, "Lily"], n=4, max_tokens=30, temperature=1.0, seed=11)
    assert [c.text for c in again[0].completions] == [c.text for c in out.completions]
    assert stories.generate(ONCE, max_tokens=30, temperature=1.0, seed=11).text == out.text


def test_seeds(stories):
    def draw(seed):
        return stories.generate(ONCE, max_tokens=40, temperature=1.2, seed=seed).tokens

    assert draw(5) == draw(5)
    assert len({tuple(draw(s)) for s in range(6)}) > 1
    assert len({tuple(draw(s)) for s in (None, -1, None, -1)}) > 1, "without a seed answers differ"


def test_seed_of_the_model(stories_folder):
    def story(seed):
        with lamina.LLM(stories_folder, seed=seed, progress=False) as llm:
            return [tuple(llm.generate(ONCE, max_tokens=30, temperature=1.2).tokens) for _ in range(4)]

    assert story(3) == story(3)
    assert story(3) != story(4)
    assert len(set(story(3))) > 1, "requests of one model differ"


def test_logprobs(stories):
    out = greedy(stories, ONCE, 12, logprobs=3)
    rows = stories.logits(stories.tokenize(ONCE, special=True) + out.tokens).astype(np.float64)[-13:-1]
    want = rows - np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) - rows.max(1, keepdims=True)
    assert len(out.logprobs) == 12
    for log, token, row in zip(out.logprobs, out.tokens, want):
        assert log.token == token
        # Probabilities are summed in float32 there.
        assert log.logprob == pytest.approx(row[token], abs=1e-5)
        assert list(log.top) == list(np.argsort(-row)[:3])
        assert log.top[token] == log.logprob == max(log.top.values())


def test_logprobs_are_off_by_default(stories):
    assert greedy(stories, ONCE, 2).logprobs is None
    assert greedy(stories, ONCE, 2, logprobs=False).logprobs is None
    for only_chosen in (0, True):
        assert [log.top for log in greedy(stories, ONCE, 2, logprobs=only_chosen).logprobs] == [{}, {}]


def test_timings_and_usage(stories):
    out = greedy(stories, [5, 6, 7, 8], 20)
    assert out.usage.prompt_tokens == 4 and out.usage.total_tokens == 24
    t = out.timings
    assert t.prefill_seconds > 0 and t.decode_seconds > 0
    assert t.decode_tokens_per_second == pytest.approx(19 / t.decode_seconds)
    assert t.prefill_tokens_per_second == pytest.approx((4 - out.usage.cached_tokens) / t.prefill_seconds)


def test_params_and_keywords(stories):
    params = lamina.SamplingParams(temperature=0, max_tokens=7)
    assert stories.generate(ONCE, sampling_params=params).tokens == greedy(stories, ONCE, 7).tokens
    assert stories.generate(ONCE, sampling_params=params, max_tokens=3).tokens == greedy(stories, ONCE, 3).tokens
    assert params.max_tokens == 7


def test_prompts_are_compressed(stories):
    prompt = "Once upon a time there was a little girl who liked to play in the park with her dog. " * 4
    whole = greedy(stories, prompt, logprobs=0)
    compressed = greedy(stories, prompt, logprobs=0, compress="snapkv:40,window=8")
    assert compressed.tokens[0] == whole.tokens[0] and compressed.logprobs[0] == whole.logprobs[0]
    assert compressed.logprobs[1:] != whole.logprobs[1:]
    assert greedy(stories, prompt, compress="pyramidkv:1000").tokens == whole.tokens
    by_all = greedy(stories, prompt, logprobs=0, compress="h2o:40")
    assert by_all.tokens[0] == whole.tokens[0] and by_all.logprobs[0] == whole.logprobs[0]
    assert by_all.logprobs[1:] not in (whole.logprobs[1:], compressed.logprobs[1:])
    for wrong in ("h2o:1", "recent:40", "snapkv", "snapkv:40,pool=2", 40):
        with pytest.raises(lamina.InvalidRequestError, match="compress"):
            lamina.SamplingParams(compress=wrong)


def test_what_follows_a_compressed_prompt_can_be_scored(stories):
    prompt, tail = list(range(10, 90)), [100, 7, 9]
    state = {"tokens": tail, "seed": 0, "index": 0, "drawn": 0, "surprise": None}
    scored = [
        stories.generate(prompt, resume=state, echo=True, logprobs=0, max_tokens=0, compress=compress).prompt_logprobs
        for compress in (None, "snapkv:40,window=8")
    ]
    assert len(scored[0]) == len(scored[1]) == 83
    assert scored[0][:81] == scored[1][:81] and scored[0][81:] != scored[1][81:]
