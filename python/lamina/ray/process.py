"""A `lamina serve` that an actor of Ray owns: it ends when the actor does, however that does."""

from __future__ import annotations

import collections
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from typing import Deque, Dict, List, Optional

from ..errors import LaminaError

_log = logging.getLogger("ray.serve")


class OwnedProcess:
    """A `lamina serve` with a file of options, and what it says on its standard error.

    Args:
        options: what the file of options says.
        arguments: those of the command beside it.
        secrets: environment of the process beside that of the actor.
    """

    def __init__(self, options: str, arguments: List[str], secrets: Dict[str, str]) -> None:
        self._last: Deque[str] = collections.deque(maxlen=20)
        self._said: Dict[str, str] = {}
        self._news = threading.Condition()
        # Only its owner may read it: it may have keys.
        self._file = tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8")
        self._file.write(options)
        self._file.flush()
        command = [sys.executable, "-m", "lamina", "serve", "--exit-with-parent", "--config", self._file.name, *arguments]
        # Who it belongs to is said by the arguments. The other end of its input closes with this process, also where that is killed.
        around = {name: value for name, value in os.environ.items() if name != "LAMINA_GATEWAY"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**around, **secrets},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            line = line.rstrip()
            _log.info(line)
            found = re.search(r"(listening on|replicas join at|ready:) (\S+)", line)
            with self._news:
                self._last.append(line)
                if found:
                    self._said.setdefault(found[1], found[2])
                self._news.notify_all()
        with self._news:
            self._process.wait()
            self._news.notify_all()

    def said(self, what: str) -> str:
        """Waits for a line, and gives the word behind what it begins with.

        Raises:
            LaminaError: the process has ended before.
        """
        with self._news:
            self._news.wait_for(lambda: what in self._said or self._process.returncode is not None)
        if what not in self._said:
            self.check()
        return self._said[what]

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def check(self) -> None:
        """Says whether it runs.

        Raises:
            LaminaError: it does not.
        """
        code: Optional[int] = self._process.poll()
        if code is not None:
            told = "\n".join(self._last)
            raise LaminaError(f"lamina serve has ended with {code}:\n{told}")

    def end(self, patience: float = 40.0) -> None:
        """Ends it in good order, and waits for that."""
        assert self._process.stdin is not None and self._process.stderr is not None
        self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stderr.close()
        self._file.close()
