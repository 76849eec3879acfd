"""A request whose answer is awaited piece by piece."""

from __future__ import annotations

from types import TracebackType
from typing import AsyncIterator, List, Optional, Type

from .outputs import Piece
from .stream import Stream


class AsyncStream(AsyncIterator[Piece]):
    """Pieces of an answer, as they come, for `async for`.

    Closing it, leaving its `async with` block, dropping it, or cancelling the task that waits for a piece cancels the
    request.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> "AsyncStream":
        return self

    async def __anext__(self) -> Piece:
        try:
            await self._stream.ready(whole=False)
            return next(self._stream)
        except StopIteration:
            raise StopAsyncIteration from None
        except BaseException:
            self._stream.close()
            raise

    @property
    def warnings(self) -> List[str]:
        """Of a chat: what was asked for and is not done."""
        return self._stream.warnings

    async def aclose(self) -> None:
        """Cancels the request; there are no further pieces."""
        self._stream.close()

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()
