"""How much there is to do, in seconds: a request of thirty tokens and one of thirty thousand are not the same."""

from __future__ import annotations

import re
import time
from typing import Iterable, List, Tuple

# What is measured is taken over so many seconds at least.
_WINDOW = 60.0
# Seconds of a request, before any has ended.
_UNKNOWN = 1.0


class WorkMeter:
    """Takes the numbers of engines, and says how long they would be busy with what waits and runs."""

    def __init__(self) -> None:
        self._marks: List[Tuple[float, float, float]] = []
        self._each = _UNKNOWN

    def seconds(self, texts: Iterable[str], now: float = -1.0) -> float:
        """Seconds of work, as the metrics of all engines tell: requests, times what one has taken of late.

        Args:
            texts: `/metrics` of each engine.
            now: seconds of any clock that does not go back; the default is that of the system.
        """
        requests = busy = ended = 0.0
        for text in texts:
            requests += _sum(text, "num_requests_running") + _sum(text, "num_requests_waiting")
            busy += _sum(text, "step_seconds_sum")
            ended += _sum(text, "request_success_total")
        self._measure(time.monotonic() if now < 0 else now, busy, ended)
        return requests * self._each

    def _measure(self, now: float, busy: float, ended: float) -> None:
        """Seconds of steps for each request that has ended since a mark of a minute ago."""
        if self._marks and (busy < self._marks[-1][1] or ended < self._marks[-1][2]):
            # An engine has left with its numbers.
            self._marks = []
        self._marks.append((now, busy, ended))
        while len(self._marks) > 2 and self._marks[1][0] <= now - _WINDOW:
            del self._marks[0]
        _, busy_then, ended_then = self._marks[0]
        if ended > ended_then:
            self._each = (busy - busy_then) / (ended - ended_then)


def _sum(text: str, name: str) -> float:
    """A metric over its labels, whatever prefix it has."""
    lines = re.findall(rf"^(?:\w+:)?{name}(?:\{{[^\n]*\}})? (\S+)$", text, flags=re.M)
    return sum(float(value) for value in lines)
