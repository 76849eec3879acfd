"""Inside a program: threads, asyncio, cancelling. One model, one batch, no lock of your own."""

import asyncio
import sys
import threading

import lamina


def in_threads(llm):
    """Calls wait, and other threads go on: a window stays alive while a worker asks."""
    answers = {}

    def ask(name):
        answers[name] = llm.generate(f"Once upon a time {name}", max_tokens=12, temperature=0).text

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("Tom", "Lily", "Ben")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


async def in_tasks(llm):
    """As many requests as tasks, and no thread for any of them."""
    prompts = [f"Once upon a time {name}" for name in ("Tom", "Lily", "Ben")]
    both = await asyncio.gather(*(llm.agenerate(prompt, max_tokens=12, temperature=0) for prompt in prompts))
    return [out.text for out in both]


async def cancelled(llm):
    """Leaving the block, or cancelling the task, ends the request: nothing goes on unseen."""
    heard = 0
    async with llm.astream("Once upon a time", max_tokens=400, ignore_eos=True) as pieces:
        async for _ in pieces:
            heard += 1
            if heard == 5:
                break
    try:
        await asyncio.wait_for(llm.agenerate("Once", max_tokens=400, ignore_eos=True), timeout=0.05)
    except asyncio.TimeoutError:
        return heard, "timed out"
    return heard, "was quicker"


def main(model=None):
    with lamina.LLM(model, context=512, progress=False) as llm:
        threads = in_threads(llm)
        tasks = asyncio.run(in_tasks(llm))
        print("threads and tasks say the same:", list(threads[n] for n in ("Tom", "Lily", "Ben")) == tasks)
        heard, end = asyncio.run(cancelled(llm))
        print(f"cancelled after {heard} pieces; the other request {end}")


if __name__ == "__main__":
    main(*sys.argv[1:])
