"""Arguments as the binding takes them; each refusal names the argument and what was given."""

from __future__ import annotations

import json
import operator
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from .errors import InvalidRequestError

Prompt = Union[str, "np.ndarray[Any, np.dtype[np.uint32]]"]
"""Text, or checked token ids."""

_LARGEST = 2**31 - 1
"""Of sizes: more tokens or threads than that are a mistake."""


def whole(name: str, value: Any, least: int = 1, most: int = _LARGEST) -> int:
    """A whole number in a range; numpy's count too, truth values do not."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise InvalidRequestError(f"{name} takes a whole number, but {value!r} was given")
    if not least <= number <= most:
        raise InvalidRequestError(f"{name} is {number}, but must be from {least} to {most}")
    return number


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidRequestError(f"{name} takes True or False, but {value!r} was given")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A str that is Unicode text: Python also holds halves of surrogate pairs, which no model has seen."""
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} takes text (str), but {_short(value)} was given")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as e:
        raise InvalidRequestError(
            f"{name} is no Unicode text: the character {value[e.start]!r} at {e.start} is half of a surrogate pair "
            '(decode bytes with errors="replace")'
        ) from None
    return value


def texts(name: str, value: Any) -> List[str]:
    """One str or several."""
    if isinstance(value, str):
        return [text(name, value)]
    if not isinstance(value, (list, tuple)):
        raise InvalidRequestError(f"{name} takes text or a list of texts, but {_short(value)} was given")
    return [text(f"{name}[{i}]", v) for i, v in enumerate(value)]


def lora(name: str, value: Any) -> Dict[str, float]:
    """Scales of LoRA adapters by name, from one name or from such a dict."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {text(name, value): 1.0}
    if not isinstance(value, dict):
        raise InvalidRequestError(
            f"{name} takes the name of an adapter or a dict of names and scales, for all prompts of a call, but"
            f" {_short(value)} was given"
        )
    return {text(f"{name}: name", k): number(f"{name}[{k!r}]", v) for k, v in value.items()}


def speculate(name: str, value: Any) -> Optional[Tuple[Optional[str], Optional[int], Optional[int]]]:
    """Method, width and branches of guesses ahead, from False, a number, or a dict; True is as the model was loaded."""
    if value is None or value is True:
        return None
    if value is False:
        return None, 0, None
    if not isinstance(value, dict):
        return None, whole(name, value, 0), None
    unknown = sorted(value.keys() - {"method", "width", "branches"}, key=str)
    if unknown:
        raise InvalidRequestError(f"{name} takes method, width and branches, but has {unknown[0]!r}")
    method, width, branches = (value.get(key) for key in ("method", "width", "branches"))
    return (
        None if method is None else text(f"{name}: method", method),
        None if width is None else whole(f"{name}: width", width, 0),
        None if branches is None else whole(f"{name}: branches", branches, 0),
    )


def number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, (bool, np.bool_, str)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidRequestError(f"{name} takes a number, but {_short(value)} was given")


def token_ids(name: str, value: Any) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Token ids from any sequence of whole numbers."""
    try:
        ids = np.asarray(value)
    except (ValueError, OverflowError):
        ids = np.asarray(None)
    if ids.size == 0 and ids.ndim == 1:
        return np.empty(0, np.uint32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise InvalidRequestError(f"{name} takes token ids (a flat list of whole numbers), but {_short(value)} was given")
    wrong = np.flatnonzero((ids < 0) | (ids > 0xFFFF_FFFF))
    if wrong.size:
        at = int(wrong[0])
        raise InvalidRequestError(f"{name}: {int(ids[at])} at position {at} is no token id")
    return ids.astype(np.uint32)


def prompt(name: str, value: Any) -> Prompt:
    """Text or token ids."""
    if isinstance(value, str):
        return text(name, value)
    if isinstance(value, (bytes, bytearray)):
        raise InvalidRequestError(f"{name} takes text or token ids, but bytes were given: decode them first")
    return token_ids(name, value)


def prompts(name: str, value: Any) -> Tuple[List[Prompt], bool]:
    """The prompts, and whether it was one by itself. A list is several prompts if it begins with text or a list."""
    if hasattr(value, "__array__"):
        value = np.asarray(value)
    several = isinstance(value, np.ndarray) and value.ndim == 2
    if isinstance(value, (list, tuple)):
        several = len(value) == 0 or isinstance(value[0], (str, bytes, list, tuple, range)) or np.ndim(value[0]) > 0
    if several:
        return [prompt(f"{name}[{i}]", v) for i, v in enumerate(value)], False
    return [prompt(name, value)], True


def pairs(first: Tuple[str, Any], second: Tuple[str, Any]) -> Tuple[List[Tuple[Prompt, Prompt]], bool]:
    """Pairs of prompts, and whether it was one by itself. One by itself stands beside each of several."""
    (lefts, one), (rights, other) = prompts(*first), prompts(*second)
    if one and not other:
        lefts = lefts * len(rights)
    if other and not one:
        rights = rights * len(lefts)
    if len(lefts) != len(rights):
        raise InvalidRequestError(
            f"{first[0]} and {second[0]} are to be as many, but {len(lefts)} and {len(rights)} were given"
        )
    return list(zip(lefts, rights)), one and other


def as_json(name: str, value: Any) -> str:
    """JSON for the binding."""
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
        return text(name, written)
    except (TypeError, ValueError, RecursionError) as e:
        raise InvalidRequestError(f"{name} cannot be written as JSON: {e}") from None


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
