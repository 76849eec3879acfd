"""What runs on the cluster: a file of `lamina serve`, and its table `[ray]`."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from pathlib import Path as Folder
from typing import Any, Callable, Dict, List, Mapping, Tuple, Union

from ..errors import InvalidRequestError
from ..types import Path

# Beside names, which every engine fetches for itself, models are paths: all nodes need the files there.
_OF_MODELS = ("models", "models_dir")
# Engines of a gateway at most.
_MOST = 64
# Keys that callers need.
KEYS = ("api_key", "api_keys", "api_key_file", "admin_key", "admin_keys")


@dataclasses.dataclass(frozen=True)
class Config:
    """What runs on the cluster.

    Args:
        serve: options and models, by the names that they have in a file of ``lamina serve``.
        replicas: engines: how many, or the least and the most of them.
        prefill: engines beside these that compute prompts alone, whose answers go on in the others. All find what is computed
            in the ``cache_dir`` of `serve`, which every node has to see.
        cpus: processors of each engine, which has as many threads.
        gpus: cards of each engine.
        listen: where the gateway listens for clients by itself, such as ``0.0.0.0:8443``: their bytes do not pass Ray. A
            port of 0 is any that is free.
        join: port of the gateway that engines join; 0 is any that is free.
        max_ongoing: requests that Ray hands to the gateway at a time.
        target: seconds of work that an engine is to have, waiting or running, where `replicas` is a range.
        upscale_delay: seconds for which there is more work than that before engines are added.
        downscale_delay: seconds for which there is less before engines end.
        name: of the application.
    """

    serve: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    replicas: Union[int, Tuple[int, int]] = 1
    prefill: int = 0
    cpus: float = 1
    gpus: float = 0
    listen: str = "127.0.0.1:0"
    join: int = 0
    max_ongoing: int = 1024
    target: float = 2.0
    upscale_delay: float = 5.0
    downscale_delay: float = 300.0
    name: str = "lamina"

    def __post_init__(self) -> None:
        if isinstance(self.replicas, list):
            object.__setattr__(self, "replicas", tuple(self.replicas))
        for name, is_fine, takes in _CHECKS:
            value = getattr(self, name)
            if isinstance(value, bool) or not is_fine(value):
                raise InvalidRequestError(f"ray.{name} takes {takes}, but {value!r} was given")
        if self.range[1] + self.prefill > _MOST:
            raise InvalidRequestError(f"ray.replicas and ray.prefill are more than {_MOST} together, which a gateway can have")
        if self.prefill and "cache_dir" not in self.serve:
            raise InvalidRequestError("ray.prefill needs a cache_dir that every node sees: prompts are handed on through it")

    @classmethod
    def read(cls, path: Path) -> Config:
        """Reads a file. Paths of models are relative to it.

        Args:
            path: the file, in TOML.

        Returns:
            What it says.

        Raises:
            InvalidRequestError: the file is not there or no TOML, or its table ``[ray]`` has a key that does not exist or a
                value that it does not take.
        """
        path = Folder(os.fsdecode(path))
        try:
            serve = _toml()(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidRequestError(f"{path}: {error}") from None
        return cls.of(serve, path.parent)

    @classmethod
    def of(cls, serve: Mapping[str, Any], folder: Path = ".") -> Config:
        """Takes what a file has as a dict.

        Args:
            serve: options and ``models``, and ``ray`` for what the other arguments of `Config` say.
            folder: what paths of models are relative to.

        Returns:
            What it says.

        Raises:
            InvalidRequestError: ``ray`` has a key that does not exist, or a value that it does not take.
        """
        options = dict(serve)
        ray = options.pop("ray", {})
        if not isinstance(ray, Mapping):
            raise InvalidRequestError("ray must be a table")
        known = [field.name for field in dataclasses.fields(cls) if field.name != "serve"]
        for key in ray:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0)[0]
                raise InvalidRequestError(f"ray.{key} does not exist; the nearest known one is `{near}`")
        return cls(serve=_placed(options, Folder(os.fsdecode(folder))), **ray)

    @property
    def range(self) -> Tuple[int, int]:
        """The least and the most engines."""
        return (self.replicas, self.replicas) if isinstance(self.replicas, int) else self.replicas

    @property
    def models(self) -> Dict[str, str]:
        """Paths of the models by their names; without any, engines have the model inside the package."""
        tables: Mapping[str, Any] = self.serve.get("models", {})
        return {name: str(table.get("path", "")) for name, table in tables.items()}

    @property
    def has_keys(self) -> bool:
        """True where callers need a key."""
        return any(self.serve.get(key) for key in KEYS)

    def gateway_file(self, **more: Any) -> str:
        """The file of the gateway's process, with more options: all but the models, which engines have."""
        own = {name: value for name, value in self.serve.items() if name not in _OF_MODELS}
        return toml_of({**own, **more})

    def engine_file(self) -> str:
        """The file of an engine's process: all but keys and the address, which are the gateway's."""
        own = {name: value for name, value in self.serve.items() if name not in (*KEYS, "host", "port", "replicas")}
        own.setdefault("threads", max(1, int(self.cpus)))
        return toml_of(own)


def _counts(value: Any) -> bool:
    """True of a number of engines, or of two in their order."""
    numbers = value if isinstance(value, tuple) and len(value) == 2 else (value, value)
    return all(type(n) is int for n in numbers) and 1 <= numbers[0] <= numbers[1] <= _MOST


def _number(least: float) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (int, float)) and least <= value < float("inf")


_CHECKS: List[Tuple[str, Callable[[Any], bool], str]] = [
    ("replicas", _counts, "a number of 1 to 64, or a list of the least and the most"),
    ("prefill", lambda value: type(value) is int and 0 <= value < _MOST, "a number of 0 to 63"),
    ("cpus", _number(0.01), "a number above 0"),
    ("gpus", _number(0), "a number of 0 or more"),
    ("listen", lambda value: isinstance(value, str) and value.rpartition(":")[2].isdecimal(), "HOST:PORT"),
    ("join", lambda value: type(value) is int and 0 <= value < 65536, "a port"),
    ("max_ongoing", lambda value: type(value) is int and value >= 1, "a number of 1 or more"),
    ("target", _number(0.01), "seconds above 0"),
    ("upscale_delay", _number(0), "seconds"),
    ("downscale_delay", _number(0), "seconds"),
    ("name", lambda value: isinstance(value, str) and bool(value), "a text"),
]


def _placed(options: Dict[str, Any], folder: Folder) -> Dict[str, Any]:
    """The options with paths of models that hold wherever the file is."""
    placed = dict(options)
    if "models_dir" in placed:
        placed["models_dir"] = str((folder / str(placed["models_dir"])).resolve())
    if "models" in placed:
        placed["models"] = {name: _model(name, table, folder) for name, table in dict(placed["models"]).items()}
    return placed


def _model(name: str, table: Any, folder: Folder) -> Dict[str, Any]:
    if not isinstance(table, Mapping):
        raise InvalidRequestError(f"models.{name} must be a table")
    path = str(table.get("path", ""))
    # What is no file here is a name, or a path of the nodes.
    there = folder / path
    return {**table, "path": str(there.resolve())} if path and there.exists() else dict(table)


def toml_of(options: Mapping[str, Any]) -> str:
    """Options, and tables of them below `models`, as a file."""
    plain = [f"{name} = {_value(value)}" for name, value in options.items() if name != "models"]
    for name, table in options.get("models", {}).items():
        plain += ["", f"[models.{_value(name)}]", *(f"{key} = {_value(value)}" for key, value in table.items())]
    return "\n".join(plain) + "\n"


def _value(value: Any) -> str:
    # Texts, numbers, lists, true and false are written alike in JSON and in TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml() -> Callable[[str], Dict[str, Any]]:
    try:
        import tomllib as reader
    except ImportError:  # before Python 3.11
        import tomli as reader  # type: ignore[import-not-found, no-redef]
    return reader.loads
