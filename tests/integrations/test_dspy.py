"""DSPy against a live server; in an environment of its own, since it pins what others pin otherwise."""

import pytest

dspy = pytest.importorskip("dspy", reason="the extra `integrations-more` has it")

MODEL = "lamina-tiny"


@pytest.mark.package("dspy", "`dspy.LM(\"hosted_vllm/..\", api_base=.., engine=\"litellm\")`")
def test_dspy(base):
    """A signature with a choice, by a schema, without a retry."""
    from typing import Literal

    import litellm

    # It asks litellm's table whether a model keeps schemas, where only known models stand.
    entry = {"litellm_provider": "hosted_vllm", "mode": "chat", "supports_response_schema": True}
    litellm.register_model({f"hosted_vllm/{MODEL}": entry})

    class Judge(dspy.Signature):
        """Judge the mood of a sentence."""

        sentence: str = dspy.InputField()
        mood: Literal["glad", "sad"] = dspy.OutputField()

    options = dict(api_base=base, api_key="none", max_tokens=300, temperature=0.0, cache=False, num_retries=0, engine="litellm")
    lm = dspy.LM(f"hosted_vllm/{MODEL}", **options)
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        assert dspy.Predict(Judge)(sentence="It is sunny.").mood in ("glad", "sad")
        assert len(lm.history) == 1
