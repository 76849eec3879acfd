"""Waiting for a call from another thread in the event loop that runs: asyncio's (also uvloop), or trio's."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import Awaitable, Callable, List, Tuple, TypeVar

from .closing import Closing

_Made = TypeVar("_Made", bound=Closing)
Watch = Callable[[Callable[[], None]], None]
"""Is given what it is to call once, from any thread."""
_Waiting = Tuple[Callable[[], None], Callable[[], Awaitable[None]]]
"""What is to be called, and the wait for it."""


async def called(watch: Watch) -> None:
    """Waits until `watch` has called."""
    call, wait = _trio() if _library() == "trio" else _asyncio()
    watch(call)
    await wait()


async def apart(make: Callable[[], _Made]) -> _Made:
    """What `make` returns, on a thread of its own. What is made for a task that was cancelled is closed."""
    made: List[_Made] = []
    raised: List[BaseException] = []
    left = threading.Event()

    def run(call: Callable[[], None]) -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001  it is raised where it is awaited
            raised.append(error)
        if left.is_set() and made:
            made[0].close()
        call()

    try:
        await called(lambda call: threading.Thread(target=run, args=(call,), name="lamina-encode").start())
    except BaseException:
        left.set()
        raise
    if raised:
        raise raised[0]
    return made[0]


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
