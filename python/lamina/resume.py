"""Answers that were cut, and go on as they would have."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Union

from . import checks
from .errors import InvalidRequestError
from .outputs import Completion

Resumed = Union[Completion, Dict[str, Any], None]
"""A `Completion`, or its `state`."""
_NUMBERS = ("seed", "index", "drawn")
_KEYS = {"tokens", "surprise", *_NUMBERS}


class Begun(NamedTuple):
    """The beginning of an answer, as the binding takes it."""

    tokens: List[int]
    seed: int
    answer: int
    """Which of the `n` answers."""
    drawn: int
    surprise: Optional[float]


def begun(name: str, value: Resumed) -> Optional[Begun]:
    """The beginning of an answer, from a `Completion` or from its `state`."""
    state = value.state if isinstance(value, Completion) else value
    if state is None:
        return None
    if not isinstance(state, dict):
        raise InvalidRequestError(f"{name} takes a Completion or its state, but {value!r:.80} was given")
    different = sorted(_KEYS ^ state.keys(), key=str)
    if different:
        raise InvalidRequestError(f"{name} takes the state of a Completion, with {', '.join(sorted(_KEYS))}: see {different[0]!r}")
    seed, answer, drawn = (checks.whole(f"{name}: {key}", state[key], 0, 2**64 - 1) for key in _NUMBERS)
    surprise = state["surprise"]
    surprise = None if surprise is None else checks.number(f"{name}: surprise", surprise)
    return Begun(checks.token_ids(f"{name}: tokens", state["tokens"]).tolist(), seed, answer, drawn, surprise)

