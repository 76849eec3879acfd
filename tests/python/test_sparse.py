"""Sparse attention: asked for by a policy, told by `info`, and an approximation."""

import lamina
import pytest

PROMPT = "Once upon a time there was a little girl who liked to play in the park with her dog. " * 20


def answer(**policy):
    with lamina.LLM(progress=False, offload=lamina.Policy(**policy)) as llm:
        out = llm.generate(PROMPT, max_tokens=12, temperature=0, logprobs=0, ignore_eos=True)
        notes = [note for note in llm.info.notes if "approximate" in note]
        return [scored.logprob for scored in out.logprobs], llm.info.approximations, notes


def test_only_what_is_asked_for_is_left_out():
    whole, told, notes = answer()
    assert (told, notes) == ([], [])
    values, told, notes = answer(attention_sparsity=0.05)
    assert told == ["attention_sparsity 0.05"] and notes == ["answers are approximate: attention_sparsity 0.05"]
    assert values[0] == whole[0] and values != whole
    prefill, told, notes = answer(sparse_prefill=0.1)
    assert told == ["sparse_prefill 0.1"] and notes == ["answers are approximate: sparse_prefill 0.1"]
    assert prefill[0] != whole[0]


@pytest.mark.parametrize("name", ["attention_sparsity", "sparse_prefill"])
@pytest.mark.parametrize("share", [0, 1, -0.5, 10, "a tenth", True])
def test_shares_are_checked(name, share):
    for use in (lamina.LLM, lamina.plan):
        with pytest.raises(lamina.InvalidRequestError, match=name):
            use(offload=lamina.Policy(**{name: share}))


def test_a_plan_takes_it():
    assert lamina.plan(context=256, offload=lamina.Policy(attention_sparsity=0.1, sparse_prefill=0.5)).fits
