"""The small model inside the package."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import ModelError

_FILE = Path(__file__).parent / "models" / "lamina-tiny.gguf"


def path() -> Path:
    """The model that is used where no path is given: `LAMINA_MODEL`, or the one inside the package."""
    named = os.environ.get("LAMINA_MODEL")
    if named:
        return Path(named)
    if not _FILE.is_file():
        raise ModelError(
            f"the model inside the package ({_FILE.name}) is not installed: give a path to a model, or set LAMINA_MODEL"
        )
    return _FILE
