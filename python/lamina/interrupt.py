"""Ctrl-C while the `lamina` command starts: the package takes a moment to import, and nothing is lost yet."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any


def is_command() -> bool:
    """Whether this process is the command: its script, or `python -m lamina`, whose name is not known yet."""
    name = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    if name == "-m":
        given = list(getattr(sys, "orig_argv", []))
        return "-m" in given and given[given.index("-m") + 1 :][:1] == ["lamina"]
    return name in ("lamina", "lamina.exe")


def exit_early() -> None:
    """Ends the command with 130 at Ctrl-C, until Rust listens. Other programs keep their own handler."""
    if is_command() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave)


def leave(*_: Any) -> None:
    """A handler: ends the process at once, without a traceback."""
    os._exit(130)
