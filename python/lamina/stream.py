"""A request whose answer comes in pieces."""

from __future__ import annotations

from typing import Iterator, Optional

from . import _lamina
from .closing import Closing
from .outputs import Piece


class Stream(Closing, Iterator[Piece]):
    """Pieces of an answer, as they come.

    Closing it, leaving its `with` block, or dropping it cancels the request. Several threads may read one stream; each
    piece goes to one of them.
    """

    def __init__(self, request: _lamina.Stream, echo: str, n: int, logprobs: bool) -> None:
        self._request = request
        self._logprobs = logprobs
        self._echoes = iter([Piece(echo, None, i, None, None, None) for i in range(n)] if echo else [])

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Piece:
        for echo in self._echoes:
            return echo
        try:
            row = self._request.next()
        except BaseException:
            self.close()
            raise
        if row is None:
            raise StopIteration
        index, text, token, forced, logprob, top, finish_reason, complete = row
        tops = dict(top) if self._logprobs and token is not None else None
        return Piece(text, token, index, logprob, tops, finish_reason, forced, complete)

    def close(self) -> None:
        """Cancels the request; there are no further pieces."""
        self._echoes = iter(())
        self._request.close()
