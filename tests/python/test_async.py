"""What is awaited gives what is waited for, in every event loop, and ends with who awaits it."""

import asyncio
import gc
import threading
import time

import lamina
import numpy as np
import pytest
from test_stream import wait_until_idle

trio = pytest.importorskip("trio")

ONCE = "Once upon a time"
MESSAGES = [{"role": "user", "content": "Hello!"}]


class Asyncio:
    run = staticmethod(asyncio.run)
    sleep = staticmethod(asyncio.sleep)

    @staticmethod
    async def gather(*coroutines):
        return list(await asyncio.gather(*coroutines))

    @staticmethod
    async def at_most(seconds, coroutine):
        try:
            await asyncio.wait_for(coroutine, seconds)
        except asyncio.TimeoutError:
            return True


class Trio:
    sleep = staticmethod(trio.sleep)

    @staticmethod
    def run(coroutine):
        async def main():
            return await coroutine

        return trio.run(main)

    @staticmethod
    async def gather(*coroutines):
        results = [None] * len(coroutines)

        async def one(i, coroutine):
            results[i] = await coroutine

        async with trio.open_nursery() as nursery:
            for i, coroutine in enumerate(coroutines):
                nursery.start_soon(one, i, coroutine)
        return results

    @staticmethod
    async def at_most(seconds, coroutine):
        with trio.move_on_after(seconds) as scope:
            await coroutine
        return scope.cancelled_caught


@pytest.fixture(params=[Asyncio, Trio])
def loop(request):
    return request.param


def same(a, b):
    return (a.text, a.tokens, a.finish_reason, a.logprobs) == (b.text, b.tokens, b.finish_reason, b.logprobs)


def test_tasks_get_what_threads_get(stories, loop):
    requests = [(f"{ONCE}, {i}", {"seed": i, "temperature": 0.9, "logprobs": 2, "max_tokens": 20}) for i in range(24)]
    want = [stories.generate(prompt, **options) for prompt, options in requests]
    before = threading.active_count()

    async def main():
        got = await loop.gather(*(stories.agenerate(prompt, **options) for prompt, options in requests))
        assert threading.active_count() == before, "no thread waits for a request"
        several = await stories.agenerate([prompt for prompt, _ in requests[:3]], max_tokens=0)
        assert [answer.usage.completion_tokens for answer in several] == [0] * 3
        return got

    assert all(map(same, want, loop.run(main())))


def test_pieces_are_those_of_a_stream(stories, loop):
    options = {"max_tokens": 30, "temperature": 0, "logprobs": 1, "echo": True, "n": 2}
    want = list(stories.stream(ONCE, **options))

    async def main():
        return [piece async for piece in stories.astream(ONCE, **options)]

    def by_answer(pieces):
        return sorted(pieces, key=lambda piece: piece.index)

    assert by_answer(loop.run(main())) == by_answer(want)


def test_chats(stories, loop):
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    options = {"chat_template": template, "max_tokens": 20, "temperature": 0}
    want = stories.chat(MESSAGES, **options)

    async def main():
        whole = await stories.achat(MESSAGES, **options)
        stream = await stories.achat(MESSAGES, stream=True, **options)
        assert stream.warnings == want.warnings
        return whole, "".join([piece.text async for piece in stream])

    whole, text = loop.run(main())
    assert same(whole, want) and whole.message == want.message and text == want.text


def test_vectors(stories, loop):
    texts = [ONCE, "The sun", [1, 2, 3]]

    async def main():
        assert (await stories.aembed([])).shape == (0, stories.info.hidden)
        return await stories.aembed(texts), await stories.aembed(ONCE)

    many, one = loop.run(main())
    np.testing.assert_array_equal(many, stories.embed(texts))
    np.testing.assert_array_equal(one, many[0])


def test_the_loop_runs_on_while_the_model_answers(long_stories, loop):
    async def main():
        ticks, answered = 0, []

        async def answer():
            answered.append(await long_stories.agenerate(ONCE, max_tokens=300, ignore_eos=True))

        async def tick():
            nonlocal ticks
            while not answered:
                await loop.sleep(0.002)
                ticks += 1

        await loop.gather(answer(), tick())
        return ticks

    assert loop.run(main()) > 5


def test_cancelled_tasks_cancel_their_requests(long_stories, loop):
    async def streamed():
        async for _ in long_stories.astream(ONCE, ignore_eos=True):
            pass

    async def main():
        assert await loop.at_most(0.2, long_stories.agenerate([ONCE, "The sun"], ignore_eos=True))
        assert await loop.at_most(0.2, streamed())
        assert await loop.at_most(0.001, long_stories.aembed("x" * 30_000))

    loop.run(main())
    wait_until_idle()


def test_streams_end_when_they_are_closed_left_or_dropped(long_stories, loop):
    async def main():
        stream = long_stories.astream(ONCE, ignore_eos=True)
        await stream.__anext__()
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await stream.__anext__()
        async with long_stories.astream(ONCE, ignore_eos=True) as stream:
            async for _ in stream:
                break
        async for _ in long_stories.astream(ONCE, ignore_eos=True):
            break
        del stream
        gc.collect()

    loop.run(main())
    wait_until_idle()


def test_errors_are_those_of_the_calls_that_wait(stories, loop):
    async def main():
        for wrong, error in (({"top_p": 2}, ValueError), ({"temprature": 1}, TypeError), ({"stop": [""]}, ValueError)):
            with pytest.raises(error):
                await stories.agenerate(ONCE, **wrong)
        with pytest.raises(lamina.InvalidRequestError, match=r"prompt\[1\]"):
            await stories.agenerate([ONCE, [10**6]])
        with pytest.raises(lamina.InvalidRequestError):
            async for _ in stories.astream([10**6]):
                pass
        with pytest.raises(lamina.InvalidRequestError, match=r"text\[1\]"):
            await stories.aembed([ONCE, [10**6]])

    loop.run(main())


def test_a_model_is_closed_at_the_end_of_its_block(stories_gguf, loop):
    async def main():
        async with lamina.LLM(stories_gguf, context=60_000, progress=False) as llm:
            await llm.agenerate(ONCE, max_tokens=2)
            begin = time.monotonic()

            async def endless():
                with pytest.raises(lamina.LaminaError, match="closed"):
                    await llm.agenerate(ONCE, ignore_eos=True)

            async def close():
                await loop.sleep(0.1)
                await llm.aclose()

            await loop.gather(endless(), close())
            assert time.monotonic() - begin < 5
        with pytest.raises(lamina.LaminaError, match="closed"):
            await llm.agenerate(ONCE)

    loop.run(main())


def test_a_loop_that_ended_before_its_requests_leaves_nothing_behind(long_stories):
    async def main():
        task = asyncio.ensure_future(long_stories.agenerate(ONCE, ignore_eos=True))
        await asyncio.sleep(0.05)
        return task

    assert asyncio.run(main()).cancelled()
    wait_until_idle()
