"""Opening a model: arguments as the binding takes them, and progress on the way."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _lamina, builtin, checks
from .errors import InvalidRequestError
from .policy import Policy
from .progress import Bar, Progress, reporter
from .types import Path


def load(path: Optional[Path], progress: Union[bool, Progress], **given: Any) -> _lamina.Model:
    """Loads the model at `path`, or the built-in one, with the arguments of `LLM` as they were given."""
    file = builtin.path() if path is None else path
    checked = options(given)
    report = reporter(progress, os.path.basename(os.fspath(file)))
    try:
        return _lamina.Model(file, progress=report, **checked)
    finally:
        if isinstance(report, Bar):
            report.close()


def options(given: Dict[str, Any]) -> Dict[str, Any]:
    """Arguments of `LLM` as the binding takes them."""
    offload = given.get("offload")
    policy = offload if isinstance(offload, Policy) else Policy()
    plain = {**given, "offload": "auto"} if offload is policy else given
    checked = {name: _AS[name](name, value) for name, value in plain.items()}
    return {**checked, "rules": policy.all_rules(), "percent": policy.percent(), "n_gpu_layers": policy.gpu_layers(), "objective": checks.text("objective", policy.objective)}


def paths(name: str, value: Optional[Dict[str, Path]]) -> List[Tuple[str, str]]:
    """Names and paths as the binding takes them."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{name} takes a dict of names and paths, but {value!r} was given")
    return [(checks.text(f"{name}: name", k), file_path(f"{name}[{k!r}]", v)) for k, v in value.items()]


def file_path(name: str, value: Any) -> str:
    """A path as the binding takes it."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise InvalidRequestError(f"{name} takes a path, but {value!r} was given") from None


def _whole(name: str, value: Any) -> Optional[int]:
    return None if value is None else checks.whole(name, value)


def _folder(name: str, value: Any) -> Optional[str]:
    return None if value is None else file_path(name, value)


def _size(name: str, value: Any) -> Optional[str]:
    if value is None or isinstance(value, str):
        return value
    return str(checks.whole(name, value, 1, 2**63 - 1))


def _method(name: str, value: Any) -> Optional[str]:
    return None if value is None else checks.text(name, os.fspath(value))


def _bytes(name: str, value: Any) -> Optional[int]:
    return None if value is None else checks.whole(name, value, 1, 2**63 - 1)


_AS: Dict[str, Callable[[str, Any], Any]] = {
    "device": checks.text,
    "context": _whole,
    "kv_dtype": checks.text,
    "dtype": checks.text,
    "threads": _whole,
    "loras": paths,
    "draft": _method,
    "cache_dir": _folder,
    "cache_disk": _bytes,
    "memory": _size,
    "device_memory": _size,
    "offload": checks.text,
    "panel_cache": _folder,
    "kv_swap": _size,
}
"""How each argument is checked."""
