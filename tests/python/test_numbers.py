"""Logits, hidden rows, vectors and perplexity, against the weights themselves and against each other."""

import lamina
import numpy as np
import pytest
from safetensors.numpy import load_file

IDS = [1, *range(40, 400, 7)]


@pytest.fixture(scope="module")
def exact(stories_folder):
    with lamina.LLM(stories_folder, kv_dtype="f32", progress=False) as llm:
        yield llm


def log_softmax(rows):
    rows = rows.astype(np.float64)
    peak = rows.max(-1, keepdims=True)
    return rows - peak - np.log(np.exp(rows - peak).sum(-1, keepdims=True))


def test_shapes(stories):
    info = stories.info
    logits, hidden, vector = stories.logits(IDS), stories.hidden(IDS), stories.embed(IDS)
    assert (logits.shape, hidden.shape) == ((len(IDS), info.vocab), (len(IDS), info.hidden))
    assert vector.shape == (info.hidden,)
    assert stories.embed(["a", "b", "c"]).shape == (3, info.hidden)
    assert stories.embed([]).shape == (0, info.hidden)
    for array in (logits, hidden, vector):
        assert array.dtype == np.float32 and array.flags.c_contiguous and array.flags.writeable
        assert np.isfinite(array).all()
    assert stories.logits([7] * 512).shape == (512, info.vocab), "a whole context"


def test_hidden_rows_are_the_models(exact, stories_folder):
    """The first ones are rows of the embedding, the last ones times the embedding (it is tied) are the logits."""
    weights = load_file(stories_folder / "model.safetensors")["model.embed_tokens.weight"].astype(np.float32)
    layers = exact.info.layers
    assert np.array_equal(exact.hidden(IDS, 0), weights[IDS])
    assert np.array_equal(exact.hidden(IDS, -1), exact.hidden(IDS, layers))
    assert np.array_equal(exact.hidden(IDS, -layers - 1), weights[IDS])
    logits = exact.logits(IDS)
    # float32 sums of 64 products in another order.
    np.testing.assert_allclose(exact.hidden(IDS) @ weights.T, logits, rtol=1e-4, atol=1e-4)
    rows = [exact.hidden(IDS, i) for i in range(layers + 1)]
    assert all(not np.allclose(a, b) for a, b in zip(rows, rows[1:]))


def test_layers_out_of_range(exact):
    for layer in (exact.info.layers + 1, -exact.info.layers - 2):
        with pytest.raises(lamina.InvalidRequestError, match=f"layer is {layer}"):
            exact.hidden(IDS, layer)
    with pytest.raises(lamina.InvalidRequestError, match="layer takes"):
        exact.hidden(IDS, 1.5)


def test_logits_look_back_only(exact):
    whole, part = exact.logits(IDS), exact.logits(IDS[:20])
    assert np.array_equal(whole[:20], part)


def test_logits_are_what_tokens_are_chosen_from(stories):
    out = stories.generate(IDS, max_tokens=10, temperature=0, ignore_eos=True)
    rows = stories.logits(IDS + out.tokens)
    assert out.tokens == list(rows[len(IDS) - 1 : -1].argmax(1))


def test_embed(stories):
    for text in ("Once upon a time", IDS):
        mean = stories.hidden(text).astype(np.float64).mean(0)
        np.testing.assert_allclose(stories.embed(text), mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-6)
    many = stories.embed(["Once upon a time", "Lily"])
    assert np.array_equal(many[0], stories.embed("Once upon a time"))


def perplexity(llm, ids, context, stride, bos=None):
    """By the definition: windows, each with its own forward; what an earlier window scored is not scored again."""
    logs, start, scored = [], 0, 0
    while True:
        end = min(start + context, len(ids))
        window = list(ids[start:end])
        if bos is not None:
            window[0] = bos
        rows = log_softmax(llm.logits(window))
        logs += [-rows[i - 1, window[i]] for i in range(max(1, scored - start), len(window))]
        scored = end
        if end == len(ids):
            break
        start += stride
    logs = np.array(logs)
    nll = logs.mean()
    return np.exp(nll), nll, len(logs), np.exp(nll) * np.sqrt(logs.var() / (len(logs) - 1))


@pytest.mark.parametrize(("context", "stride"), [(512, 512), (64, 64), (64, 16), (100, 99), (128, 1), (2, 1)])
def test_perplexity(exact, shared, context, stride):
    text = (shared / "text" / "tinystories-val.txt").read_text()[: 700 if stride < 16 else 3000]
    ids = exact.tokenize(text, special=True)
    got = exact.perplexity(ids, context=context, stride=stride)
    # Differences to the largest logit are rounded to float32 there, 1e-7 of numbers around 10.
    assert tuple(got) == pytest.approx(perplexity(exact, ids, context, stride), rel=1e-6)
    by_text = exact.perplexity(text, context=context, stride=stride)
    assert tuple(by_text) == pytest.approx(perplexity(exact, ids, context, stride, bos=1), rel=1e-6)
    assert got.ppl > 1 and got.stderr > 0 and got.tokens < len(ids)


def test_perplexity_defaults_fit_short_contexts(shared):
    with lamina.LLM(shared / "models" / "stories260k", context=100, progress=False) as llm:
        text = (shared / "text" / "tinystories-val.txt").read_text()[:2000]
        assert llm.perplexity(text) == llm.perplexity(text, context=100, stride=100)


def test_perplexity_refusals(exact):
    for options in ({"context": 1}, {"stride": 0}, {"context": 50, "stride": 51}, {"context": "x"}):
        with pytest.raises(lamina.InvalidRequestError, match="context|stride"):
            exact.perplexity(IDS, **options)
    for nothing in ([], [1], ""):
        with pytest.raises(lamina.InvalidRequestError, match="at least 2 tokens"):
            exact.perplexity(nothing)


@pytest.mark.parametrize("kind", ["q8_0", "q4_k", "bf16"])
def test_quantizing_while_loading(shared, stories_gguf, kind):
    with lamina.LLM(stories_gguf, dtype=kind, progress=False) as llm:
        text = (shared / "text" / "tinystories-val.txt").read_text()[:3000]
        with lamina.LLM(stories_gguf, progress=False) as plain:
            want = plain.perplexity(text).ppl
        # Rows of 64 are no whole block of q4_k: those matrices stay. Few bits cost a small model a little.
        assert llm.perplexity(text).ppl == pytest.approx(want, rel=0.02)


# More than the rounding of keys and values costs a small model with heads of 32 numbers.
LOSSES = {"f32": 0, "f16": 1e-4, "bf16": 2e-3, "q8_0": 1e-3, "q4_0": 0.1, "fp8": 0.02}


@pytest.mark.parametrize("kind", LOSSES)
def test_types_of_the_cache(shared, kind):
    text = (shared / "text" / "tinystories-val.txt").read_text()[:3000]
    with lamina.LLM(shared / "models" / "lamina-tiny", kv_dtype="f32", progress=False) as llm:
        want = llm.perplexity(text).ppl
    with lamina.LLM(shared / "models" / "lamina-tiny", kv_dtype=kind, progress=False) as llm:
        assert llm.info.kv_dtype == kind
        assert llm.perplexity(text).ppl == pytest.approx(want, rel=LOSSES[kind])
