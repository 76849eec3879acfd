"""A line that shows how far loading is."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, Optional, TextIO, Union

from .errors import InvalidRequestError

Progress = Callable[[int, int], Any]
"""Told bytes done and bytes in all."""


class Bar:
    """Redraws one line of a terminal, and takes it away at the end."""

    _WIDTH = 30
    _EVERY = 0.1
    """Seconds between drawings: terminals are slow."""

    def __init__(self, name: str, out: TextIO) -> None:
        self._name = name
        self._out = out
        self._drawn = time.monotonic()
        self._length = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._drawn < self._EVERY:
            return
        self._drawn = now
        share = done / total if total else 1.0
        marks = "#" * int(share * self._WIDTH)
        self._draw(f"{self._name} [{marks:<{self._WIDTH}}] {share:4.0%} of {total / 1e9:.2f} GB")

    def close(self) -> None:
        """Takes the line away, if there is one."""
        if self._length:
            self._draw("")
            self._out.write("\r")
            self._out.flush()

    def _draw(self, line: str) -> None:
        self._out.write("\r" + line.ljust(self._length))
        self._out.flush()
        self._length = len(line)


def reporter(progress: Union[bool, Progress], name: str) -> Optional[Progress]:
    """Who is told: the caller's own function, a bar on a terminal, or nobody."""
    if callable(progress):
        return progress
    if not isinstance(progress, bool):
        raise InvalidRequestError(f"progress takes True, False or a function, but {progress!r} was given")
    terminal = sys.stderr is not None and sys.stderr.isatty()
    return Bar(name, sys.stderr) if progress and terminal else None
