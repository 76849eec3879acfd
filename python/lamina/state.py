"""Files that keep what was computed of a text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, List

from . import _lamina, checks, loading
from .errors import InvalidRequestError
from .media import Media
from .types import Lora, Path, Prompt


@dataclass(frozen=True)
class State:
    """What `LLM.save_state` kept of a text."""

    tokens: List[int]
    """Token ids of the text."""
    data: Any
    """What was saved beside it."""
    cached_tokens: int
    """How many of the tokens need not be computed again."""


def save(
    model: _lamina.Model, path: Path, prompt: Prompt, media: Media, data: Any, lora: Lora
) -> int:
    """Writes the file; returns its bytes."""
    given, single = checks.prompts("prompt", prompt)
    if not single:
        raise InvalidRequestError("prompt is a list of prompts, but a state is of one text")
    try:
        text = json.dumps(data)
    except (TypeError, ValueError) as e:
        raise InvalidRequestError(f"data cannot be written as JSON: {e}") from None
    return model.save_state(loading.file_path("path", path), given[0], media, text, checks.lora("lora", lora))


def load(model: _lamina.Model, path: Path, lora: Lora) -> State:
    """Reads the file, and puts what it holds back into memory."""
    tokens, data, cached = model.load_state(loading.file_path("path", path), checks.lora("lora", lora))
    return State(tokens, json.loads(data), cached)
