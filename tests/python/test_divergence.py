"""KL divergence and what is published beside it, against the definitions in float64."""

import json
import subprocess
import sys

import lamina
import numpy as np
import pytest

TEXT = (
    "Once upon a time there was a little girl named Lily. She loved to play outside in the sun. One day she found a red "
    "ball under a tree, and her friend Tom wanted to play with it too. They played all day and were very happy."
)
# Tokens of a window, so that the text has several.
CONTEXT = 24
COMMAND = [sys.executable, "-m", "lamina"]


@pytest.fixture(scope="module")
def base():
    with lamina.LLM(context=64, progress=False) as llm:
        yield llm


@pytest.fixture(scope="module")
def coarse():
    """The same model in four bits, far enough from it for every figure to say something."""
    with lamina.LLM(context=64, dtype="q4_0", progress=False) as llm:
        yield llm


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows = rows - rows.max(-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(-1, keepdims=True))


def twin(base, model, text):
    """Columns by the definitions: kl, both logprobs of the text's tokens, and whether the tops are the same."""
    ids, parts = base.tokenize(text, special=True), []
    for start in range(0, len(ids), CONTEXT):
        window = ids[start : start + CONTEXT]
        if len(window) < 2:
            continue
        # Every window begins with the model's beginning token.
        window = [ids[0], *window[1:]]
        p, q = log_softmax(base.logits(window)), log_softmax(model.logits(window))
        kl = (np.exp(p) * (p - q)).sum(-1)[:-1]
        chosen = np.arange(len(window) - 1), window[1:]
        parts.append((kl, p[:-1][chosen], q[:-1][chosen], p[:-1].argmax(-1) == q[:-1].argmax(-1)))
    return [np.concatenate(column) for column in zip(*parts)]


def test_a_model_does_not_diverge_from_itself(base):
    found = base.divergence(base, TEXT, context=CONTEXT)
    assert [found.kl, found.kl_error, found.kl_min, found.kl_max, found.delta_p, found.delta_p_rms] == [0.0] * 6
    assert (found.same_top, found.ln_ppl_ratio, found.correlation) == (1.0, 0.0, pytest.approx(1.0, abs=1e-12))
    assert all(token.kl == 0.0 for token in found.by_token)


def test_figures_are_those_of_the_definitions(base, coarse):
    found = coarse.divergence(base, TEXT, context=CONTEXT)
    kl, p, q, same = twin(base, coarse, TEXT)
    n = len(kl)
    assert found.tokens == n == len(found.by_token)
    near = {"rel": 1e-9, "abs": 1e-12}
    assert [t.kl for t in found.by_token] == pytest.approx(list(kl), **near)
    assert (found.kl, found.kl_error) == pytest.approx((kl.mean(), kl.std(ddof=1) / n**0.5), **near)
    shares = {"kl_median": 0.5, "kl_90": 0.9, "kl_99": 0.99, "kl_999": 0.999, "kl_max": 1, "kl_min": 0}
    for name, share in shares.items():
        assert getattr(found, name) == pytest.approx(np.quantile(kl, share), **near), name
    change = np.exp(q) - np.exp(p)
    assert (found.delta_p, found.delta_p_error) == pytest.approx((change.mean(), change.std(ddof=1) / n**0.5), **near)
    assert found.delta_p_rms == pytest.approx((change**2).mean() ** 0.5, **near)
    assert found.same_top == pytest.approx(same.mean(), **near)
    assert (found.ppl, found.base_ppl) == pytest.approx((np.exp(-q.mean()), np.exp(-p.mean())), **near)
    assert found.ln_ppl_ratio == pytest.approx((p - q).mean(), **near)
    assert found.ln_ppl_ratio_error == pytest.approx((p - q).std(ddof=1) / n**0.5, **near)
    assert found.correlation == pytest.approx(np.corrcoef(p, q)[0, 1], **near)
    assert 0 < found.kl < 1 and found.kl_bound == 0


def test_types_lie_where_quantizers_find_them(base, coarse):
    """Eight bits a weight cost a thousandth of a nat and less, four bits ten times as much and more."""
    with lamina.LLM(context=64, dtype="q8_0", progress=False) as fine:
        eight = fine.divergence(base, TEXT, context=CONTEXT)
    four = coarse.divergence(base, TEXT, context=CONTEXT)
    assert 0 <= eight.kl < 2e-3 and four.kl > 10 * eight.kl, (eight.kl, four.kl)


def test_perplexities_are_those_of_the_other_command(base, coarse):
    found = coarse.divergence(base, TEXT, context=CONTEXT)
    for llm, ppl, error in [(coarse, found.ppl, found.ppl_error), (base, found.base_ppl, found.base_ppl_error)]:
        alone = llm.perplexity(TEXT, context=CONTEXT, stride=CONTEXT)
        assert (ppl, error) == pytest.approx((alone.ppl, alone.stderr), rel=1e-6)


def test_a_path_is_loaded_for_the_comparison(base):
    assert base.divergence(base.info.path, TEXT, context=CONTEXT).kl < 1e-12


def test_tables_have_a_row_for_each_token(base, coarse):
    pandas = pytest.importorskip("pandas")
    found = coarse.divergence(base, TEXT, context=CONTEXT)
    table = found.to_pandas()
    assert isinstance(table, pandas.DataFrame) and list(table) == ["token", "kl", "base_logprob", "logprob", "same_top"]
    assert len(table) == found.tokens and table.kl.mean() == pytest.approx(found.kl)


def test_what_cannot_be_compared(base, made_folder):
    with lamina.LLM(made_folder, progress=False) as other, pytest.raises(lamina.InvalidRequestError, match="the base has"):
        other.divergence(base, [1, 2, 3])
    with pytest.raises(lamina.InvalidRequestError, match="at least 2 tokens"):
        base.divergence(base, "")


@pytest.fixture
def text_file(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


def command(*args, **more):
    return subprocess.run([*COMMAND, *map(str, args)], capture_output=True, text=True, **more)


def test_the_command_has_the_same_figures(base, coarse, text_file, tmp_path):
    model, logits = base.info.path, tmp_path / "base.logits"
    asked = ["perplexity", "--base", model, "-f", text_file, "-c", CONTEXT, "--dtype", "q4_0", "--json"]
    # Both models are loaded with the options: what is compared here is how, and Python compares what.
    own = json.loads(command(*asked, check=True).stdout)
    assert own["kl"] == 0.0 and own["same_top"] == 1.0
    assert own["ppl"] == pytest.approx(coarse.perplexity(TEXT, context=CONTEXT, stride=CONTEXT).ppl, rel=1e-6)
    written = json.loads(command(*asked[:-3], "--logits", logits, "--json", check=True).stdout)
    assert 0 < written["kl_bound"] and abs(written["kl"]) <= written["kl_bound"]
    exact = coarse.divergence(base, TEXT, context=CONTEXT)
    read = json.loads(command("perplexity", "--logits", logits, "--dtype", "q4_0", "-c", CONTEXT, "--json", check=True).stdout)
    assert abs(read["kl"] - exact.kl) <= read["kl_bound"] and read["kl_bound"] < 0.1
    assert read["base_ppl"] == pytest.approx(exact.base_ppl, rel=1e-6) and read["tokens"] == exact.tokens
    people = command("perplexity", "--logits", logits, "-c", CONTEXT, check=True).stdout
    assert "mean KL divergence" in people and "off by at most" in people


def test_files_of_logits_that_are_none(text_file, tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"LAMINAKL" + bytes(20))
    for asked, word in [
        (["--logits", text_file], "no file of logits"),
        (["--logits", broken], "no file of logits"),
        (["--logits", tmp_path / "missing"], "cannot read"),
        ([], "--file"),
    ]:
        done = command("perplexity", *asked)
        assert done.returncode in (1, 2) and word in done.stderr, done.stderr


def test_types_are_chosen_by_a_budget(shared, tmp_path):
    """Measured here again: below the budget, and smaller than the smallest uniform type that keeps it."""
    text, budget = (shared / "text" / "tinystories.txt").read_text()[:1500], 0.02
    (tmp_path / "text.txt").write_text(text)
    folder, out = shared / "models" / "stories260k", tmp_path / "out.gguf"
    command = [*COMMAND, "quantize", folder, out, "--budget-kl", str(budget), "--measure", tmp_path / "text.txt", "--json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".gguf"] == ["out.gguf"], "candidates are gone"
    with lamina.LLM(folder, context=512, progress=False) as base, lamina.LLM(out, context=512, progress=False) as model:
        measured = model.divergence(base, text)
    assert measured.kl <= budget and measured.kl == pytest.approx(told["budget"]["measured_kl"], rel=1e-6)
    kept = [one for one in told["budget"]["uniform"] if one["kl"] <= budget]
    size = sum(group["bytes"] for group in told["budget"]["groups"])
    assert kept and size < min(one["bytes"] for one in kept), (size, kept)
    assert len({group["type"] for group in told["budget"]["groups"]}) > 1
    first = out.read_bytes()
    assert subprocess.run([*map(str, [*command, "--force"])], capture_output=True).returncode == 0
    assert out.read_bytes() == first, "the same each time"


def test_a_budget_that_no_type_keeps_says_the_least(shared, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    # Of float32: the packaged model is of Q8_0, and keeps any budget as it is.
    folder = shared / "models" / "stories260k"
    command = [*COMMAND, "quantize", folder, tmp_path / "out.gguf", "--measure", tmp_path / "text.txt", "--budget-kl"]
    done = subprocess.run([*map(str, [*command, "1e-12"])], capture_output=True, text=True)
    assert done.returncode == 1 and "no types keep the budget of" in done.stderr, done.stderr
    assert not (tmp_path / "out.gguf").exists()
    for wrong in ("0", "nan", "-1"):
        assert subprocess.run([*map(str, [*command[:-1], f"--budget-kl={wrong}"])], capture_output=True).returncode == 2
