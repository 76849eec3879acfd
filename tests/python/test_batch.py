"""`lamina batch`: OpenAI's batch format, in order, and on from where it was cut."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import lamina
import pytest
from serving import Live

COMMAND = [sys.executable, "-m", "lamina", "batch"]


def line(name, url, **body):
    return {"custom_id": name, "method": "POST", "url": url, "body": {"model": "any", **body}}


def completion(name, prompt="Once upon a time", tokens=6, **body):
    return line(name, "/v1/completions", **{"prompt": prompt, "max_tokens": tokens, "temperature": 0, **body})


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


def test_a_server_answers_a_file(tmp_path, server):
    asked = [completion(f"n{i}", f"Once upon a time {i}") for i in range(12)]
    asked += ["{no json\n", line("vector", "/v1/embeddings", input="Once upon a time")]
    for one in (asked[0], asked[-1]):
        del one["body"]["model"]
    source, out, here = written(tmp_path / "in.jsonl", asked), tmp_path / "out.jsonl", tmp_path / "here.jsonl"
    assert run(source, here).returncode == 0
    done = run(source, out, "--server", server.url, "--parallel", "3")
    assert done.returncode == 0 and "13 answered, 1 refused" in done.stderr, done.stderr
    whole, alone = answers(out), answers(here)
    assert [row["custom_id"] for row in whole] == [row["custom_id"] for row in alone]
    text = [[row["response"]["body"]["choices"][0]["text"] for row in rows[:12]] for rows in (whole, alone)]
    assert text[0] == text[1] and whole[12]["error"] == alone[12]["error"] and "line 13" in whole[12]["error"]["message"]


class Moody:
    """A server that answers each request as `moods` say, one after another, and then well. A mood is a status, or None: then
    the connection ends."""

    def __init__(self, *moods, always=None):
        self.moods, self.always, self.seen, self.models, self.lock = list(moods), always, [], [], threading.Lock()
        moody = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.reply(200, {"data": [{"id": "moody"}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with moody.lock:
                    moody.seen.append((body["prompt"], self.headers["Idempotency-Key"], time.monotonic()))
                    moody.models.append(body["model"])
                    mood = moody.moods.pop(0) if moody.moods else moody.always or 200
                    mood = None if body["prompt"] == "poison" else mood
                if mood is None:
                    self.close_connection = True
                    return
                self.reply(mood, {"prompt": body["prompt"]} if mood == 200 else {"error": {"message": f"mood {mood}"}})

            def reply(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status in (429, 503):
                    self.send_header("Retry-After", "1")
                self.end_headers()
                self.wfile.write(data)

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


def test_a_server_that_is_busy_is_asked_again(tmp_path):
    source = written(tmp_path / "in.jsonl", [completion("a", "a"), {**completion("b"), "body": {"prompt": "b"}}])
    with Moody(503, None, 429, 400) as moody:
        done = run(source, tmp_path / "out.jsonl", "--server", moody.url, "--parallel", "1")
    assert done.returncode == 0 and "mood 503; it is asked again" in done.stderr, done.stderr
    rows = answers(tmp_path / "out.jsonl")
    assert [row["response"]["status_code"] for row in rows] == [400, 200], "what is refused is not asked again"
    prompts, keys, times = zip(*moody.seen)
    assert moody.models == ["any"] * 4 + ["moody"] and prompts == ("a", "a", "a", "a", "b")
    assert len(set(keys[:4])) == 1 and len(set(keys)) == 2
    assert times[1] - times[0] >= 1 and times[3] - times[2] >= 1, "as long as the server says"


def test_a_request_that_ends_connections_is_alone(tmp_path):
    source = written(tmp_path / "in.jsonl", [completion(name, name) for name in ("a", "poison", "b")])
    with Moody() as moody:
        done = run(source, tmp_path / "out.jsonl", "--server", moody.url, "--patience", "1s", "--parallel", "1")
    assert done.returncode == 0 and "2 answered, 1 refused" in done.stderr, done.stderr
    rows = answers(tmp_path / "out.jsonl")
    assert [row["error"] and row["error"]["code"] for row in rows] == [None, "server_error", None]


def test_patience_ends(tmp_path):
    source, out = written(tmp_path / "in.jsonl", [completion(name, name) for name in "abcd"]), tmp_path / "out.jsonl"
    with Moody(200, always=503) as moody:
        ended = run(source, out, "--server", moody.url, "--parallel", "1", "--patience", "1s")
        assert ended.returncode == 1 and "1 of 4 are written" in ended.stderr and "(503)" in ended.stderr, ended.stderr
    with Moody(401) as moody:
        denied = run(source, out, "--server", moody.url, "--api-key", "wrong")
        assert denied.returncode == 1 and "(401)" in denied.stderr and len(answers(out)) == 1, denied.stderr
    # Nobody is there any more, nor was at the start.
    gone = run(source, out, "--server", moody.url)
    assert gone.returncode == 1 and moody.url in gone.stderr and len(answers(out)) == 1, gone.stderr
    with Moody() as moody:
        assert run(source, out, "--server", moody.url, "--model", "grumpy").returncode == 0
    assert moody.models == ["grumpy"] * 3 and [row["custom_id"] for row in answers(out)] == [*"abcd"]
    wrong = run(source, out, "--patience", "1s")
    assert wrong.returncode == 2 and "--server" in wrong.stderr


def test_replicas_answer_a_file_though_they_are_killed(tmp_path):
    asked = [completion(f"n{i}", f"Once upon a time {i}", tokens=120, temperature=1, seed=i) for i in range(24)]
    for one in asked:
        del one["body"]["model"]
    source, out, whole = written(tmp_path / "in.jsonl", asked), tmp_path / "out.jsonl", tmp_path / "whole.jsonl"
    assert run(source, whole).returncode == 0
    with Live("--replicas", "2") as live:
        child = subprocess.Popen([*COMMAND, str(source), "-o", str(out), "--server", live.url, "--parallel", "4"],
                                 stderr=subprocess.PIPE, text=True)  # fmt: skip
        limit = time.monotonic() + 120
        while not out.exists() or out.read_bytes().count(b"\n") < 3:
            assert time.monotonic() < limit and child.poll() is None, child.stderr.read()
            time.sleep(0.01)
        os.kill(json.loads(live.get("/replicas")[1])[0]["pid"], signal.SIGKILL)
        told = child.communicate(timeout=120)[1]
    assert child.returncode == 0, told
    assert content(out) == content(whole)
