"""`lamina eval` and `lamina quantize --measure`."""

import json
import re
import subprocess
import sys

import lamina
import pytest

CHOICES = [
    {"question": "Once upon a time, there was a little", "choices": [" girl", " of the", " nuclear"], "answer": 0},
    {"question": "She was very", "choices": ["happy", "table"], "answer": "happy"},
    {"question": "They played in the", "choices": ["park", "because"], "answer": "B"},
    {"question": "Lily and Tom", "choices": ["were friends and they liked to play together", "of"], "answer": 0},
]
WRITTEN = [
    {"prompt": "Once upon a time", "regex": "(?i)there was", "max_tokens": 8},
    {"prompt": "Once upon a time", "exact": "never this", "max_tokens": 4},
]


def command(*words, **more):
    return subprocess.run([sys.executable, "-m", "lamina", *map(str, words)], capture_output=True, text=True, timeout=300, **more)


@pytest.fixture
def questions(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in [*CHOICES, *WRITTEN]))
    return file


def test_verdicts_are_those_of_scores(questions):
    done = command("eval", questions, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected, by_length = [], []
    with lamina.LLM(progress=False) as llm:
        for row, right in zip(CHOICES, (0, 0, 1, 0)):
            spaced = [choice if choice[0] == " " else " " + choice for choice in row["choices"]]
            scores = [score.logprob for score in llm.score(row["question"], spaced)]
            expected.append(scores.index(max(scores)) == right)
            each = [score / len(choice.strip()) for score, choice in zip(scores, spaced)]
            by_length.append(each.index(max(each)) == right)
        texts = [llm.generate(row["prompt"], temperature=0, max_tokens=row["max_tokens"]).text for row in WRITTEN]
    expected += [bool(re.search("there was", texts[0])), texts[1].strip() == "never this"]
    assert [answer["right"] for answer in found["answers"]] == expected and expected[:2] == [True, True]
    assert [answer["answer"] for answer in found["answers"]][4:] == texts
    share = sum(expected) / 6
    assert found["accuracy"] == pytest.approx(share) and found["error"] == pytest.approx((share * (1 - share) / 5) ** 0.5)
    assert found["by_length"]["right"] == sum(by_length) and found["against"] is None


def test_two_models_are_compared_in_pairs(questions, tmp_path):
    small = tmp_path / "small.gguf"
    with lamina.LLM(progress=False) as llm:
        model = llm.info.path
    assert command("quantize", model, small, "Q2_K").returncode == 0
    found = json.loads(command("eval", questions, "--against", small, "--json").stdout)
    own, other = ([a["right"] for a in found["answers"]], [a["other"]["right"] for a in found["answers"]])
    against = found["against"]
    assert against["better"] == sum(a and not b for a, b in zip(own, other))
    assert against["worse"] == sum(b and not a for a, b in zip(own, other))
    assert against["other"]["right"] == sum(other) and 0 < against["p_value"] <= 1
    people = command("eval", questions, "--against", small).stdout
    assert "accuracy" in people and "McNemar" in people


def test_wrong_files_are_told(tmp_path):
    file = tmp_path / "q.jsonl"
    file.write_text('\n{"prompt": "x"}\n')
    done = command("eval", file)
    assert done.returncode == 1 and "line 2" in done.stderr and "regex or exact" in done.stderr


def test_what_is_quantized_is_measured(tmp_path):
    text, small = tmp_path / "text.txt", tmp_path / "small.gguf"
    text.write_text("Once upon a time there was a little girl named Lily. She loved to play outside with her red ball. " * 4)
    with lamina.LLM(progress=False) as llm:
        model = llm.info.path
    done = command("quantize", model, small, "Q4_0", "--measure", text, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["divergence"]
    again = json.loads(command("perplexity", small, "--base", model, "-f", text, "--json").stdout)
    assert found == again and 0 < found["kl"] < 1 and found["same_top"] > 0.5
    people = command("quantize", model, small, "Q4_0", "--force", "--measure", text).stdout
    assert "mean KL divergence" in people and "bits per weight" in people
