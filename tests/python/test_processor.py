"""Functions of callers on rows of logits."""

import gc
import threading
import weakref

import lamina
import numpy as np
import pytest

ONCE = "Once upon a time"


def ban(*banned):
    def processor(tokens, logits):
        logits[list(banned)] = -np.inf

    return processor


def test_a_processor_that_changes_nothing_changes_nothing(stories):
    for options in ({"temperature": 0}, {"seed": 3, "repeat_penalty": 1.2, "temperature": 0.9}, {"seed": 4, "n": 3}):
        want = stories.generate(ONCE, max_tokens=30, logprobs=2, **options)
        got = stories.generate(ONCE, max_tokens=30, logprobs=2, processor=lambda tokens, logits: None, **options)
        assert [(c.text, c.tokens, c.logprobs) for c in got.completions] == [
            (c.text, c.tokens, c.logprobs) for c in want.completions
        ]


def test_it_sees_all_tokens_and_the_models_row_once_for_each(stories):
    seen = []
    out = stories.generate(
        ONCE, max_tokens=12, temperature=0, ignore_eos=True, processor=lambda tokens, logits: seen.append((tokens, logits.copy()))
    )
    prompt = stories.tokenize(ONCE, special=True)
    prompt = prompt if prompt[-1] not in stories.info.end_tokens else prompt[:-1]
    assert [tokens.tolist() for tokens, _ in seen] == [prompt + out.tokens[:i] for i in range(12)]
    rows = stories.logits(prompt + out.tokens)
    for i, (_, row) in enumerate(seen):
        np.testing.assert_array_equal(row, rows[len(prompt) - 1 + i])


def test_what_it_writes_is_what_is_sampled_from(stories):
    want = stories.generate(ONCE, max_tokens=20, temperature=0)
    banned = want.tokens[0]
    got = stories.generate(ONCE, max_tokens=20, temperature=0, processor=ban(banned))
    assert banned not in got.tokens
    biased = stories.generate(ONCE, max_tokens=20, temperature=0, logit_bias={banned: -1e9})
    assert got.tokens == biased.tokens

    def only(tokens, logits):
        logits[:] = -np.inf
        logits[len(tokens) % 100 + 300] = 0

    first = len(stories.tokenize(ONCE)) + 1
    tokens = stories.generate(ONCE, max_tokens=5, processor=only).tokens
    assert tokens == [(first + i) % 100 + 300 for i in range(5)]


def test_a_grammar_still_holds(stories):
    out = stories.generate(ONCE, regex="[ab]{4}", processor=lambda tokens, logits: logits.fill(0.0), seed=1)
    assert len(out.text) == 4 and set(out.text) <= {"a", "b"}


def test_what_it_raises_ends_the_request_and_no_other(stories):
    want = [stories.generate(f"{i}", max_tokens=40, temperature=0).tokens for i in range(3)]
    got = [None] * 3

    def other(i):
        got[i] = stories.generate(f"{i}", max_tokens=40, temperature=0).tokens

    threads = [threading.Thread(target=other, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()

    class Mine(Exception):
        pass

    def fails(tokens, logits):
        if len(tokens) > 10:
            raise Mine("at token ten")

    for call in (stories.generate, lambda *a, **k: list(stories.stream(*a, **k)), lambda p, **k: stories.chat(
        [{"role": "user", "content": p}], chat_template="{{ messages[0].content }}", **k
    )):
        with pytest.raises(Mine, match="at token ten"):
            call(ONCE, processor=fails, max_tokens=40)
    for thread in threads:
        thread.join()
    assert got == want


@pytest.mark.parametrize(
    ("processor", "error", "message"),
    [
        (lambda tokens, logits: logits.fill(np.nan), lamina.LaminaError, "NaN as the logit of token 0"),
        (lambda tokens, logits: logits.fill(-np.inf), lamina.InvalidRequestError, "no token is left"),
        (lambda tokens, logits: logits.resize(3, refcheck=False), ValueError, "resized"),
        (lambda tokens: None, TypeError, "argument"),
        (3, lamina.InvalidRequestError, "processor takes a function"),
    ],
)
def test_processors_that_cannot_be_followed(stories, processor, error, message):
    with pytest.raises(error, match=message):
        stories.generate(ONCE, processor=processor, max_tokens=3)


def test_a_state_of_its_own(stories):
    class Counting:
        calls = 0

        def __call__(self, tokens, logits):
            self.calls += 1

    counting = Counting()
    params = lamina.SamplingParams(max_tokens=7, processor=counting, ignore_eos=True)
    assert params.processor is counting and params.replace(seed=1).processor is counting
    stories.generate(ONCE, sampling_params=params)
    assert counting.calls == 7
    gone = weakref.ref(counting)
    del counting, params
    stories.generate(ONCE, max_tokens=1)
    gc.collect()
    assert gone() is None, "a request that has ended holds nothing"
