"""Waiting for a call from another thread in the event loop that runs: asyncio's (also uvloop), or trio's."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Awaitable, Callable, Tuple

Watch = Callable[[Callable[[], None]], None]
"""Is given what it is to call once, from any thread."""
_Waiting = Tuple[Callable[[], None], Callable[[], Awaitable[None]]]
"""What is to be called, and the wait for it."""


async def called(watch: Watch) -> None:
    """Waits until `watch` has called."""
    call, wait = _trio() if _library() == "trio" else _asyncio()
    watch(call)
    await wait()


def _library() -> str:
    """Whose loop runs here. trio depends on sniffio and tells it; without sniffio nobody but asyncio can be running."""
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        with contextlib.suppress(sniffio.AsyncLibraryNotFoundError):
            return str(sniffio.current_async_library())
    return "asyncio"


def _asyncio() -> _Waiting:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def call() -> None:
        # A loop that was closed has nobody who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    async def wait() -> None:
        await done

    return call, wait


def _trio() -> _Waiting:
    import trio

    token, done = trio.lowlevel.current_trio_token(), trio.Event()

    def call() -> None:
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    return call, done.wait
