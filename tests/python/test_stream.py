"""Pieces of answers, and requests that end early."""

import gc
import itertools
import sys
import time

import lamina
import pytest

ONCE = "Once upon a time"


def busy(seconds=0.3):
    """Share of the time in which this process computes."""
    begin = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - begin) / seconds


def wait_until_idle():
    """Workers of the engine wait for more a moment before they sleep."""
    for _ in range(20):
        if busy() < 0.2:
            return
    pytest.fail("the engine still computes")


def endless(llm, **options):
    return llm.stream(ONCE, ignore_eos=True, temperature=0, **options)


def test_pieces_are_the_answer(stories):
    for options in ({"temperature": 0}, {"temperature": 1.3, "seed": 9}, {"temperature": 0, "stop": ["park"]}):
        want = stories.generate(ONCE, max_tokens=60, logprobs=2, **options)
        pieces = list(stories.stream(ONCE, max_tokens=60, logprobs=2, **options))
        assert "".join(p.text for p in pieces) == want.text
        assert [p.token for p in pieces if p.token is not None] == want.tokens
        assert [p.finish_reason for p in pieces] == [None] * len(want.tokens) + [want.finish_reason]
        logs = [(p.token, p.logprob, p.top_logprobs) for p in pieces[:-1]]
        assert logs == [tuple(log) for log in want.logprobs]


def test_samples_are_told_apart(stories):
    pieces = list(stories.stream(ONCE, n=3, seed=2, max_tokens=10))
    want = stories.generate(ONCE, n=3, seed=2, max_tokens=10)
    for c in want.completions:
        assert "".join(p.text for p in pieces if p.index == c.index) == c.text
    assert sum(p.finish_reason is not None for p in pieces) == 3


def test_echo_comes_first(stories):
    pieces = list(stories.stream(ONCE, echo=True, max_tokens=5, temperature=0))
    assert (pieces[0].text, pieces[0].token) == (ONCE, None)
    want = stories.generate(ONCE, echo=True, max_tokens=5, temperature=0)
    assert "".join(p.text for p in pieces) == want.text


def test_whole_characters_only(stories):
    """Bytes of a character are tokens of their own: no piece has half of one."""
    text = "zażółć gęślą 💚 jaźń"
    bias = {token: 1e6 for token in stories.tokenize("💚")}
    pieces = [p.text for p in stories.stream(text, max_tokens=24, logit_bias=bias, temperature=0)]
    joined = "".join(pieces)
    assert joined == stories.generate(text, max_tokens=24, logit_bias=bias, temperature=0).text
    for piece in pieces:
        piece.encode("utf-8")


def test_pieces_come_while_the_model_runs(long_stories):
    begin = time.monotonic()
    with endless(long_stories) as stream:
        next(stream)
        assert time.monotonic() - begin < 2


def test_close_cancels(long_stories):
    stream = endless(long_stories, n=8)
    for _ in range(20):
        next(stream)
    stream.close()
    wait_until_idle()
    assert list(stream) == []
    stream.close()


def test_dropping_cancels(long_stories):
    stream = endless(long_stories, n=8)
    next(stream)
    del stream
    gc.collect()
    wait_until_idle()


def test_leaving_a_loop_cancels(long_stories):
    for piece in endless(long_stories, n=4):
        if piece.token is not None:
            break
    gc.collect()
    wait_until_idle()


def interrupting(module, nth):
    """Raises at the nth beginning of a function or line of a module, as a handler of a signal may."""
    places = itertools.count(1)

    def trace(frame, event, arg):
        if frame.f_globals["__name__"] != module:
            return None
        if next(places) == nth:
            raise KeyboardInterrupt
        return trace

    return trace


def test_an_interrupt_anywhere_between_pieces_cancels(long_stories):
    for nth in itertools.count(1):
        stream = endless(long_stories)
        next(stream)
        sys.settrace(interrupting("lamina.stream", nth))
        try:
            next(stream)
        except KeyboardInterrupt as held:
            sys.settrace(None)
            assert list(stream) == [], held
        else:
            break
        finally:
            sys.settrace(None)
            stream.close()
    assert nth > 5


def test_errors_of_a_request_come_from_the_call(stories):
    with pytest.raises(lamina.InvalidRequestError, match="one prompt"):
        stories.stream([ONCE, ONCE])
    with pytest.raises(lamina.InvalidRequestError, match="1000 tokens"):
        list(stories.stream([1] * 1000))


def test_a_stream_keeps_its_model_alive(stories_folder):
    pieces = list(lamina.LLM(stories_folder, progress=False).stream(ONCE, max_tokens=20, ignore_eos=True))
    assert sum(p.token is not None for p in pieces) == 20
    assert pieces[-1].finish_reason == "length"


@pytest.mark.parametrize("n", [0, 257, 10**6, 10**8, 2**31 - 1])
def test_the_number_of_answers_is_checked_before_anything_is_made(stories, n):
    for call in (stories.generate, stories.stream, lambda p, **o: stories.chat([{"role": "user", "content": p}], **o)):
        with pytest.raises(lamina.InvalidRequestError, match="n is|n"):
            call(ONCE, n=n, echo=False)
