"""Adapters: loaded beside a model, used by the requests that name them."""

import json

import lamina
import numpy as np
import pytest
from lamina.sampling import SamplingOptions

IDS = [1, 9, 30, 200, 17, 44]


@pytest.fixture(scope="module")
def adapters(stories_folder, tmp_path_factory):
    """Folders as PEFT saves them, with random matrices of rank 2 for queries and downward projections."""
    safetensors = pytest.importorskip("safetensors.numpy")
    config = json.loads((stories_folder / "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    modules = [
        (f"model.layers.{i}.{name}", hidden, cols)
        for i in range(config["num_hidden_layers"])
        for name, cols in (("self_attn.q_proj", hidden), ("mlp.down_proj", inner))
    ]
    folders = {}
    for seed, name in enumerate(("pirate", "poet")):
        random = np.random.default_rng(seed)
        tensors = {}
        for module, rows, cols in modules:
            tensors[f"base_model.model.{module}.lora_A.weight"] = random.normal(0, 0.1, (2, cols)).astype(np.float32)
            tensors[f"base_model.model.{module}.lora_B.weight"] = random.normal(0, 0.1, (rows, 2)).astype(np.float32)
        folder = tmp_path_factory.mktemp(name)
        safetensors.save_file(tensors, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 8}))
        folders[name] = folder
    return folders


@pytest.fixture(scope="module")
def llm(stories_folder, adapters):
    with lamina.LLM(stories_folder, loras=adapters, progress=False) as llm:
        yield llm


def test_requests_choose(llm, stories):
    assert llm.loras == ["pirate", "poet"] and stories.loras == []
    base = llm.logits(IDS)
    assert np.array_equal(base, stories.logits(IDS))
    pirate, poet, both, half = (
        llm.logits(IDS, lora=lora)
        for lora in ("pirate", "poet", {"pirate": 1, "poet": 1.0}, {"pirate": np.float32(0.5)})
    )
    rows = [base, pirate, poet, both, half]
    assert all(not np.allclose(a, b, atol=1e-3) for i, a in enumerate(rows) for b in rows[:i])
    assert np.array_equal(pirate, llm.logits(IDS, lora={"pirate": 1.0}))
    assert np.array_equal(base, llm.logits(IDS, lora={"pirate": 0})) and np.array_equal(base, llm.logits(IDS, lora={}))


def test_every_method_takes_them(llm):
    options = {"max_tokens": 12, "temperature": 0, "ignore_eos": True}
    prompt = "Once upon a time"
    base, changed = llm.generate(prompt, **options), llm.generate(prompt, lora="pirate", **options)
    assert base.tokens != changed.tokens
    assert "".join(p.text for p in llm.stream(prompt, lora="pirate", **options)) == changed.text
    params = lamina.SamplingParams(lora="pirate", **options)
    assert params.lora == {"pirate": 1.0} and params == lamina.SamplingParams(lora={"pirate": 1}, **options)
    assert llm.generate(prompt, sampling_params=params).text == changed.text
    assert llm.generate(prompt, sampling_params=params, lora=None).text == base.text
    messages = [{"role": "user", "content": "Hello"}]
    chat = {"chat_template": "{{ messages[0].content }}", **options}
    assert llm.chat(messages, **chat).tokens != llm.chat(messages, lora="poet", **chat).tokens
    text = "Once upon a time there was a dog. He was very happy."
    assert llm.perplexity(text).nll != llm.perplexity(text, lora="poet").nll
    assert not np.allclose(llm.embed(text), llm.embed(text, lora="poet"), atol=1e-4)
    assert not np.allclose(llm.hidden(IDS), llm.hidden(IDS, lora="poet"), atol=1e-4)


def test_wrong_ones_are_refused(llm, stories, adapters, stories_folder, tmp_path):
    with pytest.raises(lamina.InvalidRequestError, match="`cook` is not loaded; loaded: pirate, poet"):
        llm.generate("x", lora="cook")
    with pytest.raises(lamina.InvalidRequestError, match="is not loaded"):
        stories.logits(IDS, lora="pirate")
    for wrong in (3, ["pirate"], {"pirate": "strong"}, {"pirate": True}, {3: 1.0}):
        with pytest.raises(lamina.InvalidRequestError, match="lora"):
            llm.generate("x", lora=wrong)
    with pytest.raises(lamina.InvalidRequestError, match="finite"):
        llm.logits(IDS, lora={"pirate": float("nan")})
    for wrong in ("path", {"pirate": 3}, {3: "path"}):
        with pytest.raises(lamina.InvalidRequestError, match="loras"):
            lamina.LLM(stories_folder, loras=wrong, progress=False)
    with pytest.raises(lamina.LaminaError, match="nothing-here"):
        lamina.LLM(stories_folder, loras={"x": tmp_path / "nothing-here"}, progress=False)


def test_annotations():
    assert "lora" in SamplingOptions.__annotations__ and "lora" in lamina.SamplingParams.__doc__


def test_the_cache_on_disk_tells_adapters_and_their_scales_apart(stories_folder, adapters, tmp_path):
    prompt = "Once upon a time there was a little girl who liked to play in the park with her dog. " * 3
    options = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, "logprobs": 1}
    load = {"loras": adapters, "progress": False, "cache_dir": tmp_path}
    with lamina.LLM(stories_folder, **load) as first:
        want = first.generate(prompt, lora={"pirate": 0.5}, **options)
        assert want.usage.cached_tokens == 0
    with lamina.LLM(stories_folder, **load) as second:
        others = [second.generate(prompt, lora=lora, **options) for lora in (None, "poet", {"pirate": 1.0})]
        assert [other.usage.cached_tokens for other in others] == [0, 0, 0]
        assert all(other.logprobs != want.logprobs for other in others)
        again = second.generate(prompt, lora={"pirate": 0.5}, **options)
        assert again.usage.cached_disk_tokens == again.usage.cached_tokens >= 32
        assert (again.tokens, again.logprobs) == (want.tokens, want.logprobs)
    # Other numbers in an adapter of the same name are another adapter.
    with lamina.LLM(stories_folder, **{**load, "loras": {"pirate": adapters["poet"]}}) as third:
        assert third.generate(prompt, lora={"pirate": 0.5}, **options).usage.cached_tokens == 0
