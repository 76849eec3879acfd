"""`lamina.plan`, and policies of where weights lie."""

import json
import math
import struct

import lamina
import pytest

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


@pytest.fixture
def large_model(tmp_path):
    """A checkpoint of 1B parameters as a file of holes: its headers are those of a real one."""
    hidden, ffn, kv = CONFIG["hidden_size"], CONFIG["intermediate_size"], 512
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [hidden, hidden],
        "self_attn.k_proj": [kv, hidden],
        "self_attn.v_proj": [kv, hidden],
        "self_attn.o_proj": [hidden, hidden],
        "mlp.gate_proj": [ffn, hidden],
        "mlp.up_proj": [ffn, hidden],
        "mlp.down_proj": [hidden, ffn],
    }
    shapes = {"model.embed_tokens": [CONFIG["vocab_size"], hidden], "model.norm": [hidden]}
    for i in range(CONFIG["num_hidden_layers"]):
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[f"{name}.weight"] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return folder


def test_a_plan_reads_like_the_command():
    plan = lamina.plan(context=256, batch=[1, 4], prompt=16, gen=8)
    assert plan.fits and plan.problem is None and plan.disk is None
    assert [row["batch"] for row in plan.predict["decode"]] == [1, 4]
    assert all(row["tok_s"] > 0 for rows in plan.predict.values() for row in rows)
    assert str(plan).startswith("model ") and "tokens/s" in str(plan)
    assert plan.memory["total"] == sum(plan.memory["parts"].values())
    shown = plan._repr_html_()
    assert shown.count("<rect") == sum(size > 0 for size in plan.memory["parts"].values())
    assert "budget" in shown and "http" not in shown and str(plan).splitlines()[0].split()[1] in shown


def test_what_does_not_fit_is_no_error():
    plan = lamina.plan(memory=1000, context=256)
    assert not plan.fits and "memory" in plan.problem and plan.problem in str(plan)


def test_several_machines_are_told_about():
    plan = lamina.plan(context=256, batch=[1, 4], prompt=16, gen=8, machines=[2, 99], link="1ms,100MB/s")
    two, many = plan.machines
    assert two["machines"] == 2 and two["problem"] is None
    assert two["link"] == {"name": None, "message_s": 0.001, "gb_s": 0.1}
    stages = two["stages"]
    assert sum(stages["layers"]) == plan.model["layers"] and len(stages["memory"]) == 2 and stages["context"] == 256
    assert [row["batch"] for row in stages["decode"]] == [row["batch"] for row in two["replicas"]] == [1, 4]
    # Two messages in each step.
    assert stages["decode"][0]["tok_s"] < 500 and stages["prefill"][0]["n"] == 16
    # Four rounds in each layer, and one for logits.
    shards = two["shards"]
    assert shards["rounds"] == 4 * plan.model["layers"] + 1 and len(shards["memory"]) == 2 and shards["problem"] is None
    assert shards["decode"][0]["tok_s"] < 1000 / shards["rounds"] and shards["context"] == 256
    assert many["stages"] is None and "fewer layers" in many["problem"]
    assert lamina.plan(context=256).machines == [] and "stages" not in str(lamina.plan(context=256))
    assert len(lamina.plan(context=256, machines=2).machines) == 1
    for wrong in ({"link": "wire"}, {"link": 3}, {"machines": 0}, {"machines": [2, -1]}):
        with pytest.raises(lamina.InvalidRequestError):
            lamina.plan(context=256, **wrong)


def test_an_objective_changes_no_text():
    options = {"max_tokens": 12, "temperature": 0.0}
    prompts = [f"Once upon a time {n} cats" for n in range(4)]
    with lamina.LLM(context=256, progress=False) as llm:
        want = [answer.text for answer in llm.generate(prompts, **options)]
    with lamina.LLM(context=256, progress=False, offload=lamina.Policy(objective="throughput")) as llm:
        assert [answer.text for answer in llm.generate(prompts, **options)] == want


def test_little_memory_is_for_weights_rather_than_to_work_in(large_model, tmp_path):
    def parts(**more):
        panels = tmp_path / "panels"
        return lamina.plan(large_model, memory="550MiB", dtype="q4_0", context=512, panel_cache=panels, **more)

    soon, job = parts(), parts(offload=lamina.Policy(objective="throughput"))
    assert soon.disk and job.disk
    working = [plan.memory["parts"]["working_memory"] for plan in (soon, job)]
    assert working[0] <= soon.memory["budget"] / 16 < working[1]
    assert soon.memory["parts"]["weights"] > job.memory["parts"]["weights"]
    assert soon.disk["step_bytes"] < job.disk["step_bytes"]
    assert soon.memory["parts"]["buffers"] < soon.memory["budget"] / 16


def test_policies_change_no_text(tmp_path):
    options = {"max_tokens": 12, "temperature": 0.0}
    with lamina.LLM(context=256, progress=False) as llm:
        want = llm.generate("Once upon a time", **options).text
    for policy in (lamina.Policy(rules=["ffn=disk"]), lamina.Policy(weights=(0, 30), fewer_experts=None)):
        plan = lamina.plan(context=256, offload=policy, panel_cache=tmp_path)
        assert sum(home["disk"] for home in plan.placement.values()) == plan.disk["step_bytes"] > 0
        with lamina.LLM(context=256, progress=False, offload=policy, panel_cache=tmp_path) as llm:
            assert llm.generate("Once upon a time", **options).text == want
            assert llm.info.placement == plan.placement
            assert llm.info.approximations == plan.model["approximations"] == []


@pytest.mark.parametrize(
    "policy, layers",
    [(lamina.Policy(rules=["kv=disk"]), 4), (lamina.Policy(rules=["kv 2-3=disk"]), 2), (lamina.Policy(kv=(0, 50)), 2)],
)
def test_a_cache_on_disk_changes_no_text(tmp_path, policy, layers):
    options = {"max_tokens": 40, "temperature": 0.0}
    prompts = ["Once upon a time", "One day a dog"]
    with lamina.LLM(context=256, progress=False) as llm:
        want = [answer.text for answer in llm.generate(prompts, **options)]
    plan = lamina.plan(context=256, offload=policy, panel_cache=tmp_path)
    cache = plan.disk["cache"]
    assert (cache["layers"], cache["all_layers"]) == (layers, 4) and "layers on disk" in str(plan)
    assert plan.memory["parts"]["cache_buffers"] == cache["buffer_bytes"] > 0
    with lamina.LLM(context=256, progress=False, offload=policy, panel_cache=tmp_path) as llm:
        assert [answer.text for answer in llm.generate(prompts, **options)] == want
        assert not list(tmp_path.iterdir()), "the file of the cache has no name"


@pytest.mark.parametrize(
    "policy",
    [
        lamina.Policy(rules=["ffm=disk"]),
        lamina.Policy(rules=["ffn"]),
        lamina.Policy(weights=(20, 40)),
        lamina.Policy(n_cpu_moe=3),
        lamina.Policy(n_gpu_layers=-1),
        lamina.Policy(rules=["ffn=device"]),
        lamina.Policy(objective="speed"),
        lamina.Policy(objective=None),
        # The model has no experts.
        lamina.Policy(defer_experts=1),
        lamina.Policy(fewer_experts=(1, 0.5)),
        lamina.Policy(defer_experts=-1),
        lamina.Policy(fewer_experts=(0, 0.5)),
        lamina.Policy(fewer_experts=(1, 2.0)),
        lamina.Policy(fewer_experts=(1, "half")),
        lamina.Policy(fewer_experts=4),
    ],
)
def test_what_cannot_be_followed_is_refused(policy):
    with pytest.raises(lamina.InvalidRequestError):
        lamina.LLM(context=256, progress=False, offload=policy)
