"""The `lamina` command: all of it is Rust, but for what Ray runs."""

from __future__ import annotations

import os
import signal
import sys

from . import _lamina, builtin, interrupt
from .errors import ModelError


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:2] == ["deploy"]:
        from .ray.command import main as deploy

        return deploy(sys.argv[2:])
    signal.signal(signal.SIGINT, interrupt.leave)
    try:
        os.environ["LAMINA_MODEL"] = str(builtin.path())
    except ModelError:
        # Commands that need it say so; the others do not care.
        pass
    return _lamina.cli_main(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
