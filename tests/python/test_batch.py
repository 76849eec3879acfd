"""`lamina batch`: OpenAI's batch format, in order, and on from where it was cut."""

import json
import os
import signal
import subprocess
import sys
import time

import lamina
import pytest

COMMAND = [sys.executable, "-m", "lamina", "batch"]


def line(name, url, **body):
    return {"custom_id": name, "method": "POST", "url": url, "body": {"model": "any", **body}}


def completion(name, prompt="Once upon a time", tokens=6, **body):
    return line(name, "/v1/completions", prompt=prompt, max_tokens=tokens, temperature=0, **body)


def written(path, lines):
    path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines))
    return path


def run(source, out, *more):
    return subprocess.run([*COMMAND, str(source), "-o", str(out), *more], capture_output=True, text=True, timeout=300)


def answers(path):
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_endpoints_answer_as_their_server(tmp_path):
    talk = [{"role": "user", "content": "Once upon a time"}]
    asked = [
        completion("text"),
        line("chat", "/v1/chat/completions", messages=talk, max_tokens=6, temperature=0),
        line("vector", "/v1/embeddings", input="Once upon a time"),
        line("response", "/v1/responses", input="Once upon a time", max_output_tokens=16),
    ]
    out = tmp_path / "out.jsonl"
    done = run(written(tmp_path / "in.jsonl", asked), out)
    assert done.returncode == 0, done.stderr
    rows = answers(out)
    assert [row["custom_id"] for row in rows] == [one["custom_id"] for one in asked]
    assert [row["response"]["status_code"] for row in rows] == [200] * 4 and all(row["error"] is None for row in rows)
    assert len({row["id"] for row in rows} | {row["response"]["request_id"] for row in rows}) == 8
    text, chat, vector, response = (row["response"]["body"] for row in rows)
    with lamina.LLM(progress=False) as llm:
        assert text["choices"][0]["text"] == llm.generate("Once upon a time", max_tokens=6, temperature=0).text
        assert vector["data"][0]["embedding"] == pytest.approx(llm.embed("Once upon a time").tolist(), abs=1e-6)
    kinds = ["text_completion", "chat.completion", "list", "response"]
    assert [text["object"], chat["object"], vector["object"], response["object"]] == kinds
    assert "4 answered, 0 refused" in done.stderr


def test_errors_stand_in_their_lines(tmp_path):
    asked = [
        completion("good"),
        "{no json\n",
        "\n",
        completion("unknown", no_such_field=1),
        line("elsewhere", "/v1/images", prompt="x"),
        completion("good"),
        completion("last", tokens=2),
    ]
    out = tmp_path / "out.jsonl"
    assert run(written(tmp_path / "in.jsonl", asked), out).returncode == 0
    rows = answers(out)
    assert [row["custom_id"] for row in rows] == ["good", None, "unknown", "elsewhere", "good", "last"]
    assert rows[2]["response"]["status_code"] == 400 and "no_such_field" in rows[2]["response"]["body"]["error"]["message"]
    for row, word in [(rows[1], "line 2"), (rows[3], "/v1/images"), (rows[4], "custom_id")]:
        assert row["response"] is None and word in row["error"]["message"]
    assert rows[0]["response"]["status_code"] == rows[5]["response"]["status_code"] == 200


def content(path):
    """Answers without what differs each time."""
    return [(row["custom_id"], row["response"]["body"]["choices"][0]["text"]) for row in answers(path)]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_cut_file_goes_on(tmp_path, how, heed_ctrl_c):
    asked = [completion(f"n{i}", f"Once upon a time {i}", tokens=40 if i % 5 else 160) for i in range(40)]
    source, out, whole = written(tmp_path / "in.jsonl", asked), tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    assert run(source, whole).returncode == 0
    child = subprocess.Popen([*COMMAND, str(source), "-o", str(out), "--parallel", "2"], stderr=subprocess.PIPE, text=True,
                             preexec_fn=heed_ctrl_c)  # fmt: skip
    limit = time.monotonic() + 120
    while not out.exists() or out.read_bytes().count(b"\n") < 3:
        assert time.monotonic() < limit and child.poll() is None, child.stderr.read()
        time.sleep(0.01)
    os.kill(child.pid, how)
    told = child.communicate(timeout=60)[1]
    assert child.returncode == (-9 if how == signal.SIGKILL else 130)
    before = answers(out)[: out.read_bytes().count(b"\n")]
    assert 3 <= len(before) < len(asked) and (how == signal.SIGKILL or "same command" in told), told
    with out.open("ab") as file:
        file.write(b'{"id": "batch_req_cut", "custom_id": "n\xc3')
    again = run(source, out)
    assert again.returncode == 0 and f"{len(before)} of 40 are answered already" in again.stderr, again.stderr
    assert answers(out)[: len(before)] == before, "what was there is not asked again"
    assert content(out) == content(whole), "in order, with the same answers"
    done = out.read_bytes()
    assert run(source, out).returncode == 0 and out.read_bytes() == done


def test_a_file_of_others_is_left_alone(tmp_path):
    source, out = written(tmp_path / "in.jsonl", [completion("a", tokens=2)]), tmp_path / "out.jsonl"
    out.write_text('{"custom_id": "b"}\n')
    refused = run(source, out)
    assert refused.returncode == 1 and "--force" in refused.stderr and out.read_text() == '{"custom_id": "b"}\n'
    assert run(source, out, "--force").returncode == 0 and [row["custom_id"] for row in answers(out)] == ["a"]
    empty = run(written(tmp_path / "empty.jsonl", []), tmp_path / "none.jsonl")
    assert empty.returncode == 0 and (tmp_path / "none.jsonl").read_text() == ""
