"""`lamina.ray.Processor` on Ray itself: actors are killed while they answer, and the parts are those of one process."""

import json
import os
import signal
import threading
import time

import lamina
import pytest
import ray
from lamina.ray import JobCounts, Processor

QUESTIONS = [{"question": f"Once upon a time {name}"} for name in ("Anna", "a dog", "the sun", "Tim", "a cat", "two birds")]
LOAD = {"context": 512}


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    yield
    ray.shutdown()


def processor(replicas, tokens=12):
    return Processor(prompt="{question}", replicas=replicas, seed=3, max_tokens=tokens, ignore_eos=True, load=LOAD)


def parts(folder):
    return {part.name: part.read_bytes() for part in folder.glob("part-*.jsonl")}


def workers():
    """Processes of actors."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if b"ray::Worker" in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


def test_parts_are_those_of_one_process_though_an_actor_is_killed(cluster, tmp_path):
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS * 8))
    here, there = tmp_path / "here", tmp_path / "there"
    assert processor(0, 300).run(asked, here, rows=4) == JobCounts(rows=48, parts=12)
    killed = []

    def kill():
        while not parts(there):
            time.sleep(0.01)
        for pid in workers()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    counts = processor((1, 2), 300).run(asked, there, rows=4)
    killer.join()
    assert counts == JobCounts(rows=48, parts=12) and killed
    assert parts(there) == parts(here)


# Ray warns of its own settings.
@pytest.mark.filterwarnings("ignore")
def test_a_dataset_has_the_columns_of_the_answers(cluster):
    import ray.data

    answered = processor(1)(ray.data.from_items(QUESTIONS * 3), block=4).take_all()
    assert len(answered) == 18
    by_question = {}
    for row in answered:
        assert row["error"] is None and row["finish_reason"] == "length" and len(row["tokens"]) == 12
        assert by_question.setdefault(row["question"], row["text"]) == row["text"], "equal rows have equal answers"
    assert len(set(by_question.values())) > 1
    bad = processor(1)(ray.data.from_items([{"other": 1}])).take_all()
    assert "no 'question'" in bad[0]["error"] and bad[0]["text"] is None


def test_a_model_that_cannot_be_loaded_ends_the_job(cluster, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"question": "A"}\n')
    with pytest.raises(lamina.LaminaError, match="nowhere.gguf"):
        Processor("nowhere.gguf", prompt="{question}").run(tmp_path / "in.jsonl", tmp_path / "out")
    assert not parts(tmp_path / "out")
