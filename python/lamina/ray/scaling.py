"""How many engines there are to be, by seconds of work."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Tuple


def wanted(work: float, target: float, least: int, most: int) -> int:
    """Engines that have `target` seconds of work each where there are `work` seconds in all."""
    return min(max(math.ceil(work / target), least), most)


class BySeconds:
    """The policy that Ray Serve asks; how long a wish has to last before it counts is Ray's to watch.

    Args:
        target: seconds of work of each engine.
    """

    def __init__(self, target: float) -> None:
        self._target = target

    def __call__(self, context: Any) -> Tuple[int, Dict[str, Any]]:
        """What the engines told, each of all: the most of it."""
        told: Mapping[Any, float] = (context.aggregated_metrics or {}).get("work", {})
        least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
        if not told:
            return min(max(context.target_num_replicas, least), most), {}
        return wanted(max(told.values()), self._target, least, most), {}
