"""`lamina.plan`, and policies of where weights lie."""

import lamina
import pytest


def test_a_plan_reads_like_the_command():
    plan = lamina.plan(context=256, batch=[1, 4], prompt=16, gen=8)
    assert plan.fits and plan.problem is None and plan.disk is None
    assert [row["batch"] for row in plan.predict["decode"]] == [1, 4]
    assert all(row["tok_s"] > 0 for rows in plan.predict.values() for row in rows)
    assert str(plan).startswith("model ") and "tokens/s" in str(plan)
    assert plan.memory["total"] == sum(plan.memory["parts"].values())


def test_what_does_not_fit_is_no_error():
    plan = lamina.plan(memory=1000, context=256)
    assert not plan.fits and "memory" in plan.problem and plan.problem in str(plan)


def test_an_objective_changes_no_text():
    options = {"max_tokens": 12, "temperature": 0.0}
    prompts = [f"Once upon a time {n} cats" for n in range(4)]
    with lamina.LLM(context=256, progress=False) as llm:
        want = [answer.text for answer in llm.generate(prompts, **options)]
    with lamina.LLM(context=256, progress=False, offload=lamina.Policy(objective="throughput")) as llm:
        assert [answer.text for answer in llm.generate(prompts, **options)] == want


def test_policies_change_no_text(tmp_path):
    options = {"max_tokens": 12, "temperature": 0.0}
    with lamina.LLM(context=256, progress=False) as llm:
        want = llm.generate("Once upon a time", **options).text
    for policy in (lamina.Policy(rules=["ffn=disk"]), lamina.Policy(weights=(0, 30))):
        plan = lamina.plan(context=256, offload=policy, panel_cache=tmp_path)
        assert sum(home["disk"] for home in plan.placement.values()) == plan.disk["step_bytes"] > 0
        with lamina.LLM(context=256, progress=False, offload=policy, panel_cache=tmp_path) as llm:
            assert llm.generate("Once upon a time", **options).text == want
            assert llm.info.placement == plan.placement


@pytest.mark.parametrize(
    "policy",
    [
        lamina.Policy(rules=["ffm=disk"]),
        lamina.Policy(rules=["ffn"]),
        lamina.Policy(weights=(20, 40)),
        lamina.Policy(weights=(0, 40), kv=(0, 50)),
        lamina.Policy(n_cpu_moe=3),
        lamina.Policy(objective="speed"),
        lamina.Policy(objective=None),
    ],
)
def test_what_cannot_be_followed_is_refused(policy):
    with pytest.raises(lamina.InvalidRequestError):
        lamina.LLM(context=256, progress=False, offload=policy)
