"""Many threads, one model: everybody gets what they would get alone, to the last bit."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lamina
import numpy as np
import pytest

REQUESTS = [
    ("Once upon a time", {"temperature": 0}),
    ("Lily and Tom", {"temperature": 1.0, "seed": 3}),
    ("The sun", {"temperature": 0.7, "seed": 4, "repeat_penalty": 1.2}),
    ([1, 17, 200, 41], {"temperature": 1.5, "seed": 5, "top_k": 0}),
    ("One day, a cat", {"temperature": 1.0, "seed": 6, "mirostat": 2}),
    ("He said", {"temperature": 0.9, "seed": 7, "xtc_probability": 0.5}),
    ("x" * 300, {"temperature": 0.9, "seed": 8, "dry_multiplier": 0.8}),
    ("In the park", {"temperature": 0, "stop": ["."]}),
]


def answer(llm, request):
    prompt, options = request
    out = llm.generate(prompt, max_tokens=60, logprobs=4, **options)
    return out.text, out.tokens, out.finish_reason, out.logprobs


def test_eight_threads_get_what_they_get_alone(stories):
    alone = [answer(stories, r) for r in REQUESTS]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            together = list(pool.map(lambda r: answer(stories, r), REQUESTS))
            # Floats are compared for equality: a row's logits do not depend on what else is in the batch.
            assert together == alone


def test_seeds_hold_while_other_requests_run(stories):
    want = [stories.generate("Tom", seed=s, temperature=1.2, max_tokens=50).tokens for s in range(4)]
    stop = threading.Event()

    def noise():
        while not stop.is_set():
            stories.generate(["A dog", "A big house and", "Why"], n=2, max_tokens=20)

    threads = [threading.Thread(target=noise) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        got = [stories.generate("Tom", seed=s, temperature=1.2, max_tokens=50).tokens for s in range(4)]
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert got == want


def test_passes_and_answers_at_once(stories):
    ids = list(range(3, 120))
    logits, hidden = stories.logits(ids), stories.hidden(ids, 2)
    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(stories.logits, ids) for _ in range(4)]
        rows = [pool.submit(stories.hidden, ids, 2) for _ in range(4)]
        texts = [pool.submit(answer, stories, REQUESTS[0]) for _ in range(4)]
        assert all(np.array_equal(job.result(), logits) for job in jobs)
        assert all(np.array_equal(job.result(), hidden) for job in rows)
        assert len({job.result()[0] for job in texts}) == 1


def test_other_threads_run_meanwhile(long_stories):
    """Python code of another thread goes on while a request runs."""
    count, done = 0, threading.Event()

    def work():
        nonlocal count
        while not done.is_set():
            count += 1

    thread = threading.Thread(target=work)
    thread.start()
    long_stories.generate("Once", max_tokens=2000, ignore_eos=True)
    done.set()
    thread.join()
    assert count > 10_000


def test_one_stream_read_by_several_threads(stories):
    stream = stories.stream("Once upon a time", temperature=0, max_tokens=100, ignore_eos=True)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: [p.token for p in stream], range(4)))
    tokens = [t for part in parts for t in part if t is not None]
    assert len(tokens) == 100


def test_a_fork_says_that_it_has_no_model(stories_folder):
    """The engine's thread does not live in a forked child; waiting for it would never end."""
    script = textwrap.dedent("""
        import os, sys, lamina
        llm = lamina.LLM(sys.argv[1], progress=False)
        child = os.fork()
        if child == 0:
            try:
                llm.generate("x")
            except lamina.LaminaError as e:
                assert "fork" in str(e), e
                del llm
                sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        llm.generate("x", max_tokens=1)
    """)
    if hasattr(os, "fork"):
        subprocess.run([sys.executable, "-W", "ignore", "-c", script, stories_folder], check=True, timeout=60)


FORKED = {
    "stream": "next(stream)",
    "list": "list(stream)",
    "chat": "llm.chat([{'role': 'user', 'content': 'x'}])",
    "tokenize": "llm.tokenize('x')",
    "logits": "llm.logits('x')",
    "config": "llm.config",
    "apply": "llm.apply_chat_template([{'role': 'user', 'content': 'x'}])",
    "server": "server.wait()",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_every_use_in_a_fork_is_an_error_and_waits_for_nothing(stories_folder):
    """Closing there is no error; whatever else is asked, no BaseException comes, and no thread is waited for."""
    script = textwrap.dedent("""
        import os, sys, threading, lamina
        llm = lamina.LLM(sys.argv[1], progress=False)
        server = lamina.Server(llm, port=0)
        stream = llm.stream("Once upon a time", max_tokens=400, ignore_eos=True)
        next(stream)
        reader = threading.Thread(target=lambda: [None for _ in stream])
        reader.start()
        for call in sys.argv[2:]:
            child = os.fork()
            if child == 0:
                try:
                    eval(call)
                except lamina.LaminaError as e:
                    assert "fork" in str(e), e
                    stream.close()
                    server.close()
                    llm.close()
                    del stream, server, llm
                    os._exit(7)
                except BaseException as e:
                    print(type(e), e, file=sys.stderr)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, call
        reader.join()
        server.close()
        llm.generate("x", max_tokens=1)
    """)
    line = [sys.executable, "-W", "ignore", "-c", script, stories_folder, *FORKED.values()]
    subprocess.run(line, check=True, timeout=120)


def test_dropping_a_busy_model_leaves_other_threads_alone(stories_folder):
    """The engine finishes its step before it ends; the interpreter's lock is free meanwhile."""
    llm = lamina.LLM(stories_folder, context=60_000, progress=False)
    stream = llm.stream([1] * 50_000, max_tokens=1)
    longest, end = [0.0], threading.Event()

    def tick():
        last = time.monotonic()
        while not end.is_set():
            time.sleep(0.002)
            now = time.monotonic()
            longest[0], last = max(longest[0], now - last), now

    ticker = threading.Thread(target=tick)
    ticker.start()
    time.sleep(0.2)
    del llm, stream
    end.set()
    ticker.join()
    assert longest[0] < 0.15
