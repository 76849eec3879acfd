"""`lamina.ray.Processor` in one process: each row once, whatever is killed, and the same answers however often it is asked."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import lamina
import pytest
from lamina.ray import JobCounts, Processor
from lamina.ray.job import JobFolder, seed_of

LOAD = {"context": 512, "threads": 1}
QUESTIONS = [f"Once upon a time {name}" for name in ("Anna", "a dog", "\u00e9t\u00e9", "the sun", "Tim \U0001f600", "a cat", "two")]


def processor(**more):
    given = {"prompt": "{question}", "replicas": 0, "seed": 7, "max_tokens": 12, "temperature": 0.9, "load": LOAD, **more}
    return Processor(**given)


@pytest.fixture
def rows(tmp_path):
    """Two files, one of which has an empty line."""
    first, second = tmp_path / "in-1.jsonl", tmp_path / "in-2.jsonl"
    lines = [json.dumps({"question": question, "id": i}, ensure_ascii=False) for i, question in enumerate(QUESTIONS)]
    first.write_text("\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:]) + "\n", encoding="utf-8")
    second.write_text("\n".join(lines[:2]), encoding="utf-8")
    return tmp_path


def written(folder):
    return [json.loads(line) for part in sorted(folder.glob("part-*.jsonl")) for line in part.read_text("utf-8").splitlines()]


def texts(folder):
    return {part.name: part.read_bytes() for part in folder.glob("part-*.jsonl")}


def test_each_row_is_answered_once_and_by_its_own_seed(rows):
    counts = processor().run(rows / "in-*.jsonl", rows / "out", rows=3)
    assert counts == JobCounts(rows=9, errors=0, parts=4)
    answers = written(rows / "out")
    assert [answer["id"] for answer in answers] == [*range(7), 0, 1]
    with lamina.LLM(progress=False, **LOAD) as llm:
        for place, answer in enumerate(answers[:7]):
            seed = seed_of(7, f"in-1.jsonl\0{place}")
            alone = llm.generate(answer["question"], max_tokens=12, temperature=0.9, seed=seed)
            assert (answer["text"], answer["tokens"], answer["finish_reason"]) == (alone.text, list(alone.tokens), alone.finish_reason)
    # The same question of another file is another row.
    assert answers[7]["text"] != answers[0]["text"]
    assert processor().run(rows / "in-*.jsonl", rows / "out", rows=3) == JobCounts()


JOB = """
import sys
sys.path.insert(0, sys.argv[1])
from test_ray_jobs import processor
print("begun", flush=True)
processor(max_tokens=200, ignore_eos=True).run(sys.argv[2], sys.argv[3], rows=2)
"""


def test_a_job_that_was_killed_goes_on_to_the_same_bytes(rows, tmp_path):
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps({"question": question}) + "\n" for question in QUESTIONS * 8))
    command = [sys.executable, "-c", JOB, os.path.dirname(__file__), str(asked)]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, timeout=300, stdout=subprocess.DEVNULL)
    whole, cut = texts(tmp_path / "whole"), tmp_path / "cut"
    assert len(whole) == 28
    for least in (2, 6):
        job = subprocess.Popen([*command, str(cut)], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while len(texts(cut)) < least and time.monotonic() < end:
            time.sleep(0.005)
        job.send_signal(signal.SIGKILL)
        job.wait()
        done = texts(cut)
        assert least <= len(done) < 28 and done.items() <= whole.items()
    # What it was about to write.
    (cut / ".part-000027.jsonl.tmp").write_text("{")
    before = {name: (cut / name).stat().st_mtime_ns for name in done}
    subprocess.run([*command, str(cut)], check=True, timeout=300, stdout=subprocess.DEVNULL)
    assert texts(cut) == whole and not list(cut.glob(".*.tmp"))
    assert {name: (cut / name).stat().st_mtime_ns for name in done} == before, "no part is written twice"


def test_bad_rows_have_errors_and_fail_no_job(tmp_path):
    lines = ["{", "[1]", '{"q": 1}', '{"question": "A", "text": "mine"}', '{"question": ""}', '{"question": "A cat"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    counts = processor().run(tmp_path / "in.jsonl", tmp_path / "out")
    answers = written(tmp_path / "out")
    errors = [answer.get("error", "") for answer in answers]
    assert counts.errors == sum(map(bool, errors)) and counts.rows == 6
    assert "no JSON" in errors[0] and "no object" in errors[1] and "'question'" in errors[2] and "`text` already" in errors[3]
    assert answers[0]["line"] == "{" and answers[3]["text"] == "mine" and not errors[5]
    with pytest.raises(lamina.LaminaError, match="rows have errors"):
        processor().run(tmp_path / "in.jsonl", tmp_path / "few", max_errors=1)
    named = processor(columns=("answer", "ids", "why")).run(tmp_path / "in.jsonl", tmp_path / "named")
    assert named.errors == counts.errors - 1 and written(tmp_path / "named")[3]["answer"]


def test_a_folder_is_of_one_job_at_a_time(rows):
    (rows / "one.jsonl").write_text('{"question": "A"}\n')
    processor().run(rows / "one.jsonl", rows / "out")
    with pytest.raises(lamina.InvalidRequestError, match="with seed 7 and not 8"):
        processor(seed=8).run(rows / "one.jsonl", rows / "out")
    (rows / "one.jsonl").write_text('{"question": "B"}\n')
    with pytest.raises(lamina.InvalidRequestError, match="with files "):
        processor().run(rows / "one.jsonl", rows / "out")
    held = JobFolder([rows / "one.jsonl"], rows / "held", {})
    with pytest.raises(lamina.InvalidRequestError, match="another job now"):
        processor().run(rows / "one.jsonl", rows / "held")
    held.close()
    for source in (rows / "none.jsonl", rows / "none-*.jsonl", []):
        with pytest.raises(lamina.InvalidRequestError):
            processor().run(source, rows / "other")


def test_rows_without_a_prompt_have_messages(rows):
    messages = [{"role": "user", "content": "A cat"}]
    (rows / "chat.jsonl").write_text(json.dumps({"messages": messages}) + "\n" + json.dumps({"prompt": [5, 6, 7]}) + "\n")
    assert processor(prompt=None).run(rows / "chat.jsonl", rows / "out").errors == 0
    chat, ids = written(rows / "out")
    with lamina.LLM(progress=False, **LOAD) as llm:
        sampling = {"max_tokens": 12, "temperature": 0.9}
        assert chat["text"] == llm.chat(messages, seed=seed_of(7, "chat.jsonl\0" + "0"), **sampling).text
        assert ids["tokens"] == list(llm.generate([5, 6, 7], seed=seed_of(7, "chat.jsonl\0" + "1"), **sampling).tokens)


def test_what_makes_no_sense_is_refused_before_anything_runs():
    for wrong in ({"replicas": (2, 1)}, {"replicas": -1}, {"n": 2}, {"columns": ("a", "a", "b")}, {"columns": ("a", "b", "error")}):
        with pytest.raises(lamina.InvalidRequestError):
            processor(**wrong)
    with pytest.raises(lamina.InvalidRequestError, match="files alone"):
        processor(replicas=0)(None)
    if importlib.util.find_spec("ray") is None:
        with pytest.raises(lamina.UnsupportedError, match=r"pip install .lamina\[ray\]"):
            processor(replicas=1)(None)
