"""A request whose answer comes in pieces."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Iterator, List, Optional, Set

from . import _lamina
from .chat import Delta
from .closing import Closing
from .conversation import answer
from .event_loop import called
from .outputs import Asked, Completion, ImageUse, Piece, SoundUse


class Stream(_lamina.PieceIterator, Closing, Iterator[Piece]):
    """Pieces of an answer, as they come.

    Closing it, leaving its `with` block, or dropping it cancels the request. Several threads may read one stream; each
    piece goes to one of them.
    """

    def __init__(self, request: _lamina.Stream, asked: Asked, n: int, chat: bool = False) -> None:
        self._request = request
        self._asked = asked
        self._chat = chat
        self._called: Set[int] = set()
        self._echoes = [Piece(asked.echo, None, i, None, None, None) for i in range(n)] if asked.echo else []

    def _piece(self) -> Optional[Piece]:
        """Waits for the next piece; None after the last one."""
        with contextlib.suppress(IndexError):
            return self._echoes.pop(0)
        row = self._request.next()
        if row is None:
            return None
        index, text, token, forced, logprob, top, finish_reason, complete = row
        tops = dict(top) if self._asked.logprobs and token is not None else None
        piece = Piece(text, token, index, logprob, tops, finish_reason, forced, complete)
        return self._taken_apart(piece) if self._chat else piece

    async def ready(self, whole: bool) -> None:
        """Waits in the event loop for the next piece.

        Args:
            whole: waits for all of them.
        """
        if whole or not self._echoes:
            await called(lambda call: self._request.watch(call, whole))

    def whole(self) -> Completion:
        """Waits for all of a chat's answer."""
        return answer(self._request, self._asked)

    def _taken_apart(self, piece: Piece) -> Piece:
        deltas = [Delta(*row) for index, row in self._request.take_deltas() if index == piece.index]
        calls = tuple(delta for delta in deltas if delta.index is not None)
        if calls:
            self._called.add(piece.index)
        reason = piece.finish_reason
        if reason == "stop" and piece.index in self._called:
            reason = "tool_calls"
        return replace(
            piece,
            text="".join(delta.content or "" for delta in deltas),
            reasoning="".join(delta.reasoning or "" for delta in deltas),
            tool_calls=calls,
            finish_reason=reason,
        )

    @property
    def warnings(self) -> List[str]:
        """Of a chat: what was asked for and is not done."""
        return self._request.warnings()

    @property
    def images(self) -> List[ImageUse]:
        """What the pictures of the prompt became, in their order."""
        return [ImageUse(*picture) for picture in self._request.media()[0]]

    @property
    def sounds(self) -> List[SoundUse]:
        """What the sounds of the prompt became, in their order."""
        return [SoundUse(*sound) for sound in self._request.media()[1]]

    def close(self) -> None:
        """Cancels the request; there are no further pieces."""
        self._echoes = []
        self._request.close()
