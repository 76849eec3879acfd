"""Opening a model: arguments as the binding takes them, and progress on the way."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import _lamina, builtin, checks
from .errors import InvalidRequestError
from .policy import Policy
from .progress import Bar, Progress, reporter
from .types import Path


def load(path: Optional[Path], progress: Union[bool, Progress], given: Dict[str, Any]) -> _lamina.Model:
    """Loads the model at `path`, or the built-in one, with the arguments of `LLM` as they were given."""
    file = builtin.path() if path is None else path
    texts, loras = options(given), paths("loras", given["loras"])
    report = reporter(progress, os.path.basename(os.fspath(file)))
    try:
        return _lamina.Model(file, texts, loras, report)
    finally:
        if isinstance(report, Bar):
            report.close()


def options(given: Dict[str, Any]) -> Dict[str, List[str]]:
    """Those of the arguments that are options of loading, checked, as texts for the binding."""
    offload = given["offload"]
    values = {**given, **_said(offload), "offload": "auto"} if isinstance(offload, Policy) else given
    texts = {}
    for name, kind, least in _lamina.load_kinds():
        # A text has a default of its own, and is never None.
        if name in values and (values[name] is not None or kind == "text"):
            texts[name] = _TEXTS[kind](name, values[name], least)
    return texts


def _said(policy: Policy) -> Dict[str, Any]:
    """What a policy says, by the names of options of loading."""
    said = {**vars(policy), "place": checks.texts("rules", policy.rules)}
    if policy.weights is not None or (*policy.kv, *policy.activations) != (0, 100, 0, 100):
        percent = [*(policy.weights or (0, 100)), *policy.kv, *policy.activations]
        said["percent"] = " ".join(str(checks.whole("percent", n, 0, 100)) for n in percent)
    return said


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


def _count(name: str, value: Any) -> str:
    return value if isinstance(value, str) else str(checks.whole(name, value, 1, 2**63 - 1))


def _pair(name: str, value: Any) -> str:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidRequestError(f"{name} takes two numbers such as (4, 0.1), but {value!r} was given")
    return f"{checks.whole(name, value[0])},{checks.number(name, value[1])!r}"


_TEXTS: Dict[str, Callable[[str, Any, int], List[str]]] = {
    "bytes": lambda name, value, _: [_count(name, value)],
    "count": lambda name, value, _: [_count(name, value)],
    "flag": lambda name, value, _: [str(checks.flag(name, value)).lower()],
    "number": lambda name, value, _: [repr(checks.number(name, value))],
    "pair": lambda name, value, _: [_pair(name, value)],
    "path": lambda name, value, _: ["off" if name == "mmproj" and value is False else file_path(name, value)],
    "text": lambda name, value, _: [checks.text(name, value)],
    "texts": lambda name, value, _: checks.texts(name, value),
    "whole": lambda name, value, least: [str(checks.whole(name, value, least))],
}
"""How a value of each kind is checked and written."""
