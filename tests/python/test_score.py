"""Scores of continuations: sums of what `logits` says, at less cost."""

import lamina
import numpy as np
import pytest

CONTEXT = "Once upon a time there was a little girl named Lily. She loved to play outside in the park with her"


def twin(llm, context, continuation):
    """From the logits of both together."""
    rows = llm.logits(context + continuation).astype(np.float64)
    rows = rows[len(context) - 1 : -1] if continuation else rows[:0]
    norms = np.log(np.exp(rows - rows.max(-1, keepdims=True)).sum(-1)) + rows.max(-1) if continuation else rows.sum(-1)
    logprob = sum(rows[i, token] - norms[i] for i, token in enumerate(continuation))
    return logprob, all(rows[i].argmax() == token for i, token in enumerate(continuation))


def test_scores_are_those_of_the_logits(stories):
    context, likely = stories.tokenize(CONTEXT), stories.generate(CONTEXT, max_tokens=5, temperature=0).tokens
    context = [*stories.tokenize(CONTEXT, special=True)][: len(context) + 1]
    for continuation in (likely, likely[:1], [3, 4, 5], likely + [9], []):
        # A list without anything in it is one of no continuations.
        got = stories.score(context, np.array(continuation, np.uint32))
        logprob, greedy = twin(stories, context, continuation)
        assert got.logprob == pytest.approx(logprob, abs=1e-4) and got.greedy == greedy
    assert stories.score(context, likely).greedy and not stories.score(context, [3, 4, 5]).greedy


def test_a_batch_gives_what_each_gives_alone(stories):
    ends = [" friends", " dog", " ball and a cat", "", " x"]
    contexts = [CONTEXT, "The sun", CONTEXT, "A", CONTEXT]
    alone = [stories.score(context, end) for context, end in zip(contexts, ends)]
    assert stories.score(contexts, ends) == alone
    assert stories.score(CONTEXT, ends) == [stories.score(CONTEXT, end) for end in ends]
    assert stories.score(contexts, " x") == [stories.score(context, " x") for context in contexts]
    assert stories.score([], []) == [] and stories.score(CONTEXT, []) == []


def test_a_shared_context_is_computed_once(stories_gguf):
    with lamina.LLM(stories_gguf, context=256, progress=False) as llm:
        llm.score(CONTEXT * 2, [" a", " b", " c", " d"])
        out = llm.generate(CONTEXT * 2, max_tokens=1)
        whole = out.usage.prompt_tokens // 32 * 32
        assert out.usage.cached_tokens >= whole - 32 > 0


def test_spaces_belong_to_the_continuation(stories):
    assert stories.score(CONTEXT + "  ", "friends") == stories.score(CONTEXT, "  friends")
    assert stories.score(" ", "Once") == stories.score("", " Once")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[]], [[1]]), "context is empty"),
        (("a", [1, 2]), "both texts or both token ids"),
        ((["a", "b"], ["c"] * 3), "as many, but 2 and 3"),
        (([1] * 600, [1]), "600|601"),
        (([1], [10**6]), "not in the vocabulary"),
    ],
)
def test_what_cannot_be_scored(stories, arguments, message):
    with pytest.raises(lamina.InvalidRequestError, match=message):
        stories.score(*arguments)
