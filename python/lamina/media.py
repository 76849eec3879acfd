"""Pictures and sounds of prompts and of messages, as the binding takes them."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from . import images, sounds
from .errors import InvalidRequestError
from .images import Fetch, Picture
from .sounds import Sound
from .types import Message

_Read = TypeVar("_Read")


class Media(NamedTuple):
    """Those of one prompt."""

    images: List[Picture]
    """Pictures, in the order of their markers."""
    sounds: List[Sound]
    """Sounds, in the order of theirs."""


class Given(NamedTuple):
    """What `images` and `sounds` of a call were given."""

    images: Any
    """Pictures, or lists of them."""
    sounds: Any
    """Sounds, or lists of them."""

    def __bool__(self) -> bool:
        return bool(self.images) or bool(self.sounds)


def of_prompt(given: Given, fetch: Fetch) -> Media:
    """Those of one prompt."""
    return of_prompts(given, None, fetch)[0]


def of_prompts(given: Given, prompts: Optional[int], fetch: Fetch) -> List[Media]:
    """Those of each of so many prompts; None: of one by itself."""
    seen = _lists(("images", "pictures"), given.images, prompts, lambda name, one: images.picture(name, one, fetch))
    heard = _lists(("sounds", "sounds"), given.sounds, prompts, lambda name, one: sounds.sound(name, one, fetch=fetch))
    return [Media(*both) for both in zip(seen, heard)]


def of_messages(messages: Sequence[Message], fetch: Fetch) -> Tuple[Sequence[Message], Media]:
    """The messages with {"type": "image"} and {"type": "audio"} for each of them, and these in order."""
    said, seen = images.of_messages(messages, fetch) if images.any_in(messages) else (messages, [])
    said, heard = sounds.of_messages(said, fetch) if sounds.any_in(said) else (said, [])
    return said, Media(seen, heard)


def without(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with {"type": "image"} and {"type": "audio"} for each of them."""
    said = images.without(messages) if images.any_in(messages) else messages
    return sounds.without(said) if sounds.any_in(said) else said


def any_in(messages: Any) -> bool:
    """Whether messages have pictures or sounds."""
    return images.any_in(messages) or sounds.any_in(messages)


def _lists(
    names: Tuple[str, str], value: Any, prompts: Optional[int], read: Callable[[str, Any], _Read]
) -> List[List[_Read]]:
    """A list for each prompt; `names` are those of the keyword and of what is in it."""
    name, what = names
    if prompts is None:
        return [_list(name, what, value, read)]
    if value is None:
        return [[] for _ in range(prompts)]
    if not isinstance(value, (list, tuple)) or len(value) != prompts:
        raise InvalidRequestError(f"{name} takes a list of {what} for each of the {prompts} prompts")
    return [_list(f"{name}[{i}]", what, own, read) for i, own in enumerate(value)]


def _list(name: str, what: str, value: Any, read: Callable[[str, Any], _Read]) -> List[_Read]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise InvalidRequestError(f"{name} takes a list of {what}, but an object of type {type(value).__name__} was given")
    return [read(f"{name}[{i}]", one) for i, one in enumerate(value)]
