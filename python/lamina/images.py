"""Pictures as the binding takes them: paths, bytes, and pixels in memory. Pillow, numpy's and torch's objects are told by
what they can do."""

from __future__ import annotations

import base64
import binascii
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import url2pathname

import numpy as np

from .errors import InvalidRequestError
from .types import Message

Raw = Tuple[int, int, int, int]
"""Width, height, bytes of a pixel, and EXIF's number of how it is turned."""
Picture = Tuple[str, Union[str, bytes], Optional[Raw]]
"""Where it was given, a path or the bytes of a file or of pixels, and of pixels their form."""

Fetch = Optional[Callable[[str], bytes]]
"""Reads what lies at an address, where that is allowed."""

_TAKES = "a path, the bytes of a file, a PIL image, an array of uint8 [height, width, channels], or a data: URL"
_KINDS = ("image", "image_url", "input_image")
"""Types of parts that are pictures."""
_HOLDERS = ("image", "image_url", "url", "path", "base64", "source")
"""What a part may hold its picture in."""
_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
"""Bytes of a pixel by Pillow's names."""
_DEEP = ("I", "F")
"""What Pillow's modes of more than 8 bits begin with."""
_ORIENTATION = 0x0112
"""EXIF's tag."""


def picture(name: str, value: Any, fetch: Fetch = None) -> Picture:
    """One picture."""
    if isinstance(value, str):
        return _of_text(name, value, fetch)
    if isinstance(value, os.PathLike):
        return name, os.fsdecode(value), None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return name, bytes(value), None
    if all(hasattr(value, part) for part in ("mode", "size", "tobytes", "convert")):
        return _of_pillow(name, value)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return _of_array(name, value)
    if callable(getattr(value, "read", None)):
        return picture(name, value.read(), fetch)
    raise InvalidRequestError(f"{name} takes {_TAKES}, but an object of type {type(value).__name__} was given")


def of_messages(messages: Sequence[Message], fetch: Fetch = None) -> Tuple[List[Message], List[Picture]]:
    """The messages with {"type": "image"} for each picture, and the pictures in order."""
    taken: List[Picture] = []

    def part(at: str, value: Any) -> Any:
        if not _is_picture(value):
            return value
        taken.append(_of_part(at, value, fetch))
        return {"type": "image"}

    return replaced(messages, part), taken


def without(messages: Sequence[Message]) -> List[Message]:
    """The messages with {"type": "image"} for each picture."""
    return replaced(messages, lambda _, value: {"type": "image"} if _is_picture(value) else value)


def any_in(messages: Any) -> bool:
    """Whether messages have pictures."""
    given = messages if isinstance(messages, (list, tuple)) else ()
    contents = [message.get("content") for message in given if isinstance(message, dict)]
    return any(_is_picture(value) for content in contents if isinstance(content, (list, tuple)) for value in content)


def replaced(messages: Sequence[Message], part: Any) -> List[Message]:
    """The messages with what `part` makes of the place and the value of each part."""
    def one(i: int, message: Message) -> Message:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, (list, tuple)):
            return message
        parts = [part(f"messages[{i}].content[{j}]", value) for j, value in enumerate(content)]
        return {**message, "content": parts}

    return [one(i, message) for i, message in enumerate(messages)]


def _is_picture(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in _KINDS


def _of_part(at: str, part: Dict[str, Any], fetch: Fetch) -> Picture:
    holder = next((name for name in _HOLDERS if part.get(name) is not None), None)
    if holder is None:
        raise InvalidRequestError(f'{at} has no picture: give it as {{"type": "image", "image": ..}}, {_TAKES}')
    value = part[holder]
    if holder == "base64" or holder == "source" and isinstance(value, dict) and value.get("type") == "base64":
        return at, from_base64(at, value["data"] if holder == "source" else value), None
    if isinstance(value, dict):
        value = value.get("url")
    return picture(at, value, fetch)


def _of_text(name: str, text: str, fetch: Fetch) -> Picture:
    if text.startswith("data:"):
        return name, data_of_url(name, text), None
    fetched = from_net(name, text, fetch, "pictures")
    if fetched is not None:
        return name, fetched, None
    return name, url2pathname(urlsplit(text).path) if text.lower().startswith("file://") else text, None


def from_net(name: str, text: str, fetch: Fetch, what: str) -> Optional[bytes]:
    """What lies at an address, where it may be read; None where the text is none."""
    if not text[:8].lower().startswith(("http://", "https://")):
        return None
    if fetch is None:
        host = urlsplit(text).hostname
        raise InvalidRequestError(
            f"{name}: {what} are not fetched from the net (host {host}): download it and give its path or its bytes, "
            f"or load the model with allow_urls=[{host!r}]"
        )
    try:
        return fetch(text)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{name}: {error}") from None


def data_of_url(name: str, text: str, what: str = "a picture") -> bytes:
    """What a data: URL holds."""
    head, comma, data = text[len("data:") :].partition(",")
    if not comma:
        raise InvalidRequestError(f"{name} is a data: URL without a comma before its data")
    return from_base64(name, data, what) if head.endswith(";base64") else unquote_to_bytes(data)


def from_base64(name: str, data: Any, what: str = "a picture") -> bytes:
    """The bytes that base64 writes."""
    try:
        text = data if isinstance(data, (str, bytes)) else ""
        found = base64.b64decode("".join(text.split()) if isinstance(text, str) else text, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise InvalidRequestError(f"{name} holds no base64 of {what}")
    return found


def _of_pillow(name: str, image: Any) -> Picture:
    mode = image.mode
    if mode.startswith(_DEEP):
        raise InvalidRequestError(f"{name} has Pillow's mode {mode}: bring it to 8 bits, such as RGB, first")
    clear = "transparency" in (getattr(image, "info", None) or {}) or mode in ("PA", "La", "RGBa")
    if mode not in _CHANNELS or (clear and mode not in ("LA", "RGBA")):
        image = image.convert("RGBA" if clear else "RGB")
    width, height = image.size
    exif = getattr(image, "getexif", None)
    turned = (exif() or {}).get(_ORIENTATION, 1) if callable(exif) else 1
    form = width, height, _CHANNELS[image.mode], turned if turned in range(1, 9) else 1
    return name, image.tobytes(), form


def _of_array(name: str, value: Any) -> Picture:
    for step in ("detach", "cpu"):
        value = getattr(value, step, lambda value=value: value)()
    array = np.asarray(value)
    shape = tuple(array.shape)
    if array.dtype != np.uint8:
        raise InvalidRequestError(f"{name} takes samples of uint8, 0 to 255, but {array.dtype} was given")
    if array.ndim == 3 and shape[0] in (1, 3, 4) and shape[2] not in range(1, 5):
        raise InvalidRequestError(
            f"{name} takes [height, width, channels], but {list(shape)} was given, with the channels first: move them "
            "behind, as in x.transpose(1, 2, 0) or x.permute(1, 2, 0)"
        )
    if array.ndim not in (2, 3) or (array.ndim == 3 and shape[2] not in range(1, 5)):
        raise InvalidRequestError(f"{name} takes [height, width] or [height, width, 1 to 4], but {list(shape)} was given")
    channels = shape[2] if array.ndim == 3 else 1
    return name, np.ascontiguousarray(array).tobytes(), (shape[1], shape[0], channels, 1)
