"""The `lamina` command: all of it is Rust."""

from __future__ import annotations

import os
import signal
import sys

from . import _lamina, builtin
from .errors import ModelError


def main() -> int:
    """Runs the command line and returns its exit code."""
    # Python's own handler waits for bytecode to run, which there is none of; the command brings one where it needs it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os.environ["LAMINA_MODEL"] = str(builtin.path())
    except ModelError:
        # Commands that need it say so; the others do not care.
        pass
    return _lamina.cli_main(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
