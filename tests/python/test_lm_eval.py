"""`lamina.eval.LaminaLM` under lm-eval itself, beside its own model over transformers on the same weights.

Needs lm-eval, transformers and torch, which are too large for every run: `tests/night lm_eval` installs them.
"""

import json
import os
import subprocess
import sys

import lamina
import pytest

pytest.importorskip("lm_eval", reason="lm-eval is not installed: tests/night lm_eval does it")
pytest.importorskip("torch", reason="torch is not installed: tests/night lm_eval does it")

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")

# Warnings of these packages are theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = ["Lily", "Tom", "Ben", "Sue", "Max", "Anna", "Sam", "Mia"]
THINGS = ["ball", "dog", "cat", "tree", "car", "bird", "hat", "book"]
CHOICES = [
    {"question": f"Once upon a time, there was a little {kind} named {name}. {pronoun} loved to play with", "answer": i % 3,
     "choices": [f"{pronoun.lower()}r toys", "the of and", f"a {thing} in the park"]}
    for i, (name, thing) in enumerate(zip(NAMES, THINGS)) for kind, pronoun in [("girl", "She"), ("boy", "He")]
]  # fmt: skip
STORIES = [
    f"Once upon a time, there was a {kind} named {name}. {name} had a red {thing}. One day, {name} went to the park with the {thing}."
    for kind in ("girl", "boy") for name, thing in zip(NAMES, THINGS)
]  # fmt: skip

TASKS = {
    "own_choice": (
        CHOICES,
        "output_type: multiple_choice\ndoc_to_text: '{{question}}'\ndoc_to_choice: choices\ndoc_to_target: answer\n"
        "metric_list: [{metric: acc}, {metric: acc_norm}]\n",
    ),
    "own_last_word": (
        [{"text": s.rsplit(" ", 1)[0], "last": s.rsplit(" ", 1)[1]} for s in STORIES],
        "output_type: loglikelihood\ndoc_to_text: '{{text}}'\ndoc_to_target: ' {{last}}'\n"
        "metric_list: [{metric: acc}, {metric: perplexity}]\n",
    ),
    "own_rolling": (
        [{"text": s} for s in STORIES],
        "output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{text}}'\n"
        "metric_list: [{metric: word_perplexity}, {metric: bits_per_byte}]\n",
    ),
    "own_answer": (
        [{"text": " ".join(s.split()[:8]), "last": "."} for s in STORIES],
        "output_type: generate_until\ndoc_to_text: '{{text}}'\ndoc_to_target: '{{last}}'\n"
        "generation_kwargs: {until: ['.'], max_gen_toks: 24, do_sample: false}\nmetric_list: [{metric: exact_match}]\n",
    ),
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    for name, (rows, form) in TASKS.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        head = f"task: {name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {data}\ntest_split: test\n"
        (folder / f"{name}.yaml").write_text(head + form)
    return folder


@pytest.fixture(scope="module")
def evaluated(tasks, stories_folder):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    def evaluate(model, **more):
        return simple_evaluate(
            model, tasks=list(TASKS), task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
            bootstrap_iters=0, log_samples=True, **more,
        )  # fmt: skip

    theirs = evaluate("hf", model_args={"pretrained": str(stories_folder), "dtype": "float32", "device": "cpu"})
    import lamina.eval

    with lamina.LLM(stories_folder, kv_dtype="f32", progress=False) as llm:
        # The folder's tokenizer has no configuration that would have transformers begin with the beginning token.
        ours = evaluate(lamina.eval.LaminaLM(llm, add_bos_token=False))
    return ours, theirs


@pytest.mark.parametrize("task", TASKS)
def test_results_are_those_of_transformers(evaluated, task):
    ours, theirs = (found["results"][task] for found in evaluated)
    metrics = [name for name, value in theirs.items() if isinstance(value, float) and "stderr" not in name]
    assert metrics
    for name in metrics:
        # float32 products in another order; accuracies are counts.
        exact = name.startswith(("acc", "exact"))
        assert ours[name] == (theirs[name] if exact else pytest.approx(theirs[name], rel=1e-4)), name


def test_answers_are_those_of_transformers(evaluated):
    # transformers decodes an answer by itself, and so without the space that its first token begins with.
    ours, theirs = ([row["resps"][0][0].strip() for row in found["samples"]["own_answer"]] for found in evaluated)
    assert ours == theirs and any(ours)


def test_each_choice_has_the_same_likelihood(evaluated):
    def column(found):
        return [float(r[0][0]) for row in found["samples"]["own_choice"] for r in row["resps"]]

    ours, theirs = map(column, evaluated)
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-3) and len(ours) == 3 * len(CHOICES)


def test_the_command_line_knows_the_model(tasks, tmp_path):
    line = [sys.executable, "-m", "lamina.eval", "run", "--model", "lamina", "--tasks", "own_choice",
            "--include_path", str(tasks), "--output_path", str(tmp_path), "--model_args", "max_length=256"]  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "own_choice" in done.stdout and "acc_norm" in done.stdout


def test_what_a_task_cannot_ask(stories_folder):
    from lm_eval.api.instance import Instance

    import lamina.eval

    model = lamina.eval.LaminaLM(stories_folder, kv_dtype="f32", progress=False)
    request = Instance("generate_until", {}, ("Once", {"until": ["."], "no_such": 1}), 0)
    with pytest.raises(ValueError, match="no_such"):
        model.generate_until([request])
    with pytest.raises(ValueError, match="longer max_length"):
        model.loglikelihood([Instance("loglikelihood", {}, ("a", " b" * 2000), 0)])
    assert model.loglikelihood([]) == [] and model.loglikelihood_rolling([]) == [] and model.generate_until([]) == []
    long = Instance("loglikelihood_rolling", {}, (" ".join(STORIES),), 0)
    short = model.loglikelihood_rolling([long])[0]
    assert short < -100, "more tokens than the context holds"
