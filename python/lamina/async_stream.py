"""A request whose answer is awaited piece by piece."""

from __future__ import annotations

from types import TracebackType
from typing import AsyncIterator, Callable, List, Optional, Type

from .event_loop import apart
from .outputs import ImageUse, Piece, SoundUse
from .stream import Stream


class AsyncStream(AsyncIterator[Piece]):
    """Pieces of an answer, as they come, for `async for`.

    Closing it, leaving its `async with` block, dropping it, or cancelling the task that waits for a piece cancels the
    request.
    """

    def __init__(self, stream: Optional[Stream], make: Optional[Callable[[], Stream]] = None) -> None:
        self._stream, self._make = stream, make

    def __aiter__(self) -> "AsyncStream":
        return self

    async def __anext__(self) -> Piece:
        if self._stream is None:
            if self._make is None:
                raise StopAsyncIteration
            make, self._make = self._make, None
            self._stream = await apart(make)
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
        return self._stream.warnings if self._stream else []

    @property
    def images(self) -> List[ImageUse]:
        """What the pictures of the prompt became, once the first piece has come."""
        return self._stream.images if self._stream else []

    @property
    def sounds(self) -> List[SoundUse]:
        """What the sounds of the prompt became, once the first piece has come."""
        return self._stream.sounds if self._stream else []

    async def aclose(self) -> None:
        """Cancels the request; there are no further pieces."""
        self._make = None
        if self._stream:
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
