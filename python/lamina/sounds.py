"""Sounds as the binding takes them: paths, bytes, and samples in memory."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .errors import InvalidRequestError
from .images import Fetch, data_of_url, from_base64, from_net, replaced
from .types import Message

Sound = Tuple[str, Union[str, bytes], Optional[int]]
"""Where it was given, a path or the bytes of a file or of samples, and of samples how many there are a second."""

_TAKES = "a path, the bytes of a file, a data: URL, or an array of samples with their sampling_rate"
_KINDS = ("audio", "audio_url", "input_audio")
"""Types of parts that are sounds."""
_HOLDERS = ("audio", "audio_url", "input_audio", "url", "path", "base64")
"""What a part may hold its sound in."""


def sound(name: str, value: Any, rate: Any = None, fetch: Fetch = None) -> Sound:
    """One sound."""
    if isinstance(value, str):
        return _of_text(name, value, fetch)
    if isinstance(value, os.PathLike):
        return name, os.fsdecode(value), None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return name, bytes(value), None
    if isinstance(value, tuple) and len(value) == 2:
        value, rate = value
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return _of_array(name, value, rate)
    raise InvalidRequestError(f"{name} takes {_TAKES}, but an object of type {type(value).__name__} was given")


def of_messages(messages: Sequence[Message], fetch: Fetch = None) -> Tuple[List[Message], List[Sound]]:
    """The messages with {"type": "audio"} for each sound, and the sounds in order."""
    taken: List[Sound] = []

    def part(at: str, value: Any) -> Any:
        if not _is_sound(value):
            return value
        taken.append(_of_part(at, value, fetch))
        return {"type": "audio"}

    return replaced(messages, part), taken


def any_in(messages: Any) -> bool:
    """Whether messages have sounds."""
    given = messages if isinstance(messages, (list, tuple)) else ()
    contents = [message.get("content") for message in given if isinstance(message, dict)]
    return any(_is_sound(value) for content in contents if isinstance(content, (list, tuple)) for value in content)


def without(messages: Sequence[Message]) -> List[Message]:
    """The messages with {"type": "audio"} for each sound."""
    return replaced(messages, lambda _, value: {"type": "audio"} if _is_sound(value) else value)


def _is_sound(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _KINDS


def _of_part(at: str, part: Dict[str, Any], fetch: Fetch) -> Sound:
    holder = next((name for name in _HOLDERS if part.get(name) is not None), None)
    if holder is None:
        raise InvalidRequestError(f'{at} has no sound: give it as {{"type": "audio", "audio": ..}}, {_TAKES}')
    value = part[holder]
    if isinstance(value, dict) and value.get("data") is not None:
        return at, from_base64(at, value["data"], "a sound"), None
    if holder == "base64":
        return at, from_base64(at, value, "a sound"), None
    if isinstance(value, dict):
        value = value.get("url")
    return sound(at, value, part.get("sampling_rate"), fetch)


def _of_text(name: str, text: str, fetch: Fetch) -> Sound:
    if text.startswith("data:"):
        return name, data_of_url(name, text, "a sound"), None
    fetched = from_net(name, text, fetch, "sounds")
    return name, text if fetched is None else fetched, None


def _of_array(name: str, value: Any, rate: Any) -> Sound:
    for step in ("detach", "cpu"):
        value = getattr(value, step, lambda value=value: value)()
    array = np.asarray(value)
    if not isinstance(rate, (int, np.integer)) or isinstance(rate, bool) or not 0 < rate < 2**32:
        raise InvalidRequestError(f'{name} has samples, but not how many there are a second: give "sampling_rate" beside them')
    if array.ndim != 1 or array.dtype.kind not in "fi" or array.dtype.itemsize < 2:
        raise InvalidRequestError(
            f"{name} takes one channel of samples, [samples], of a float or of int16 or int32, "
            f"but {list(array.shape)} of {array.dtype} was given"
        )
    scale = 1.0 if array.dtype.kind == "f" else -1.0 / np.iinfo(array.dtype).min
    return name, (array * scale).astype("<f4").tobytes(), int(rate)
