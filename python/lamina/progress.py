"""A line that shows how far loading is."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any, Callable, Optional, Protocol, TextIO, Union

from .errors import InvalidRequestError

Progress = Callable[[int, int], Any]
"""Told bytes done and bytes in all."""


class Line(Protocol):
    """A line that can be drawn again."""

    def draw(self, text: str) -> None:
        """Draws it in the place of what was there."""

    def clear(self) -> None:
        """Takes it away."""


class TerminalLine:
    """The line of a terminal's cursor."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._length = 0

    def draw(self, text: str) -> None:
        self._out.write("\r" + text.ljust(self._length))
        self._out.flush()
        self._length = len(text)

    def clear(self) -> None:
        self.draw("")
        self._out.write("\r")
        self._out.flush()


class NotebookLine:
    """An output of a notebook's cell, which is replaced: notebooks keep every `\\r` that is written."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, text: str) -> None:
        shown = {"text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def clear(self) -> None:
        self.draw("")


class Bar:
    """Draws how far something is, and takes the line away at the end."""

    _WIDTH = 30
    _EVERY = 0.1
    """Seconds between drawings: terminals are slow."""

    def __init__(self, name: str, line: Line) -> None:
        self._name = name
        self._line = line
        self._next = time.monotonic() + self._EVERY
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._drawn = now + self._EVERY, True
        share = done / total if total else 1.0
        marks = "#" * int(share * self._WIDTH)
        self._line.draw(f"{self._name} [{marks:<{self._WIDTH}}] {share:4.0%} of {total / 1e9:.2f} GB")

    def close(self) -> None:
        """Takes the line away, if there is one."""
        if self._drawn:
            self._line.clear()


def reporter(progress: Union[bool, Progress], name: str) -> Optional[Progress]:
    """Who is told: the caller's own function, a bar on a terminal or in a notebook, or nobody."""
    if callable(progress):
        return progress
    if not isinstance(progress, bool):
        raise InvalidRequestError(f"progress takes True, False or a function, but {progress!r} was given")
    line = _line() if progress else None
    return None if line is None else Bar(name, line)


def _line() -> Optional[Line]:
    """Where a line can be drawn."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        return NotebookLine()
    return TerminalLine(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
