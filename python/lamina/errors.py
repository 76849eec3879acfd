"""What can go wrong, by what you can do about it. Each message says what is wrong, where, and what to do.

Where Python has a class for the same thing, the error is one of those too, so that `except OSError` around loading or
`except ValueError` around a request works as expected.
"""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional


class LaminaError(Exception):
    """The base of all errors of this package; by itself: something failed while running, or the model was closed."""


class ModelError(LaminaError, OSError):
    """There is no model at the path, or it cannot be read."""


class FormatError(LaminaError):
    """A file of the model is broken."""


class UnsupportedError(LaminaError):
    """The model, type, device or option is not supported."""


class OutOfMemoryError(LaminaError, MemoryError):
    """Memory does not suffice; the message says for what, and what would fit."""


class DeviceLostError(LaminaError):
    """The device is gone, by a reset or a fault of its driver: load the model again."""


class InvalidRequestError(LaminaError, ValueError):
    """An option or a prompt is wrong."""


@contextlib.contextmanager
def numbered(name: str, number: Optional[int]) -> Iterator[None]:
    """Says in errors which entry of a list is meant."""
    try:
        yield
    except LaminaError as error:
        if number is not None:
            error.args = (f"{name}[{number}]: {error}",)
        raise
