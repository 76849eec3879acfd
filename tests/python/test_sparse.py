"""Sparse attention: asked for by a policy, told by `info`, and an approximation."""

import lamina
import pytest

PROMPT = "Once upon a time there was a little girl who liked to play in the park with her dog. " * 20


def answer(**policy):
    with lamina.LLM(progress=False, offload=lamina.Policy(**policy)) as llm:
        out = llm.generate(PROMPT, max_tokens=12, temperature=0, logprobs=0, ignore_eos=True)
        notes = [note for note in llm.info.notes if "approximations" in note]
        return [scored.logprob for scored in out.logprobs], (llm.info.attention_sparsity, llm.info.sparse_prefill), notes


def test_only_what_is_asked_for_is_left_out():
    whole, told, notes = answer()
    assert (told, notes) == ((None, None), [])
    values, told, notes = answer(attention_sparsity=0.05)
    assert told == (0.05, None) and "5 % of the values" in notes[0]
    assert values[0] == whole[0] and values != whole
    prefill, told, notes = answer(sparse_prefill=0.1)
    assert told == (None, 0.1) and "10 % of far blocks" in notes[0]
    assert prefill[0] != whole[0]


@pytest.mark.parametrize("name", ["attention_sparsity", "sparse_prefill"])
@pytest.mark.parametrize("share", [0, 1, -0.5, 10, "a tenth", True])
def test_shares_are_checked(name, share):
    for use in (lamina.LLM, lamina.plan):
        with pytest.raises(lamina.InvalidRequestError, match=name):
            use(offload=lamina.Policy(**{name: share}))


def test_a_plan_takes_it():
    assert lamina.plan(context=256, offload=lamina.Policy(attention_sparsity=0.1, sparse_prefill=0.5)).fits
