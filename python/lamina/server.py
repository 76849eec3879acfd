"""`Server`: answers over HTTP."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from . import _lamina, builtin
from .closing import Closing
from .errors import InvalidRequestError
from .sampling import SamplingParams, to_request
from .types import Path

if TYPE_CHECKING:
    from .llm import LLM

    _ModelArg = Union[Path, LLM]

_Served = Tuple[Optional[str], Optional[str], Optional[_lamina.Model]]


class Server(Closing):
    """Answers over HTTP, for clients of OpenAI, Anthropic, llama-server and Ollama. It runs beside the program, which
    may use the same `LLM` at the same time: their requests are batched.

    Examples:
        >>> with lamina.Server("model.gguf", port=0) as server:
        ...     print(server.url)
    """

    def __init__(
        self,
        model: Union[_ModelArg, Mapping[str, _ModelArg], None] = None,
        *,
        sampling_params: Optional[SamplingParams] = None,
        config: Optional[Path] = None,
        **options: Any,
    ) -> None:
        """Listens, and loads the models.

        Args:
            model: a path, an `LLM`, or a dict of these by the names that requests call them; None: the models of config
                or models_dir, else the small one inside the package.
            sampling_params: what holds for requests that do not say.
            config: a file of options and models, in TOML.
            options: those of the command line, as keywords: ``host="127.0.0.1"``, ``port=8080`` (0: any that is free),
                ``api_keys=["secret"]``, ``context=4096``, ``max_running=16``, ... (`python -m lamina serve --help`).

        Raises:
            ModelError: there is no model at a path.
            InvalidRequestError: an option has a value that it cannot have.
            LaminaError: the address cannot be listened on.
        """
        models = list(_models(model))
        if not models and config is None and options.get("models_dir") is None:
            models = [(None, os.fspath(builtin.path()), None)]
        sampling = {} if sampling_params is None else to_request(sampling_params)
        self._server = _lamina.Server(models, config, list(_options(options)), sampling)

    @property
    def url(self) -> str:
        """Where it listens, such as ``http://127.0.0.1:8080``."""
        return self._server.url()

    @property
    def port(self) -> int:
        """Its port."""
        return self._server.port()

    def wait(self) -> None:
        """Waits for the end: a signal, or `close` in another thread."""
        self._server.wait()

    def close(self) -> None:
        """Refuses new requests, waits for those that run, and ends. Closing twice is fine."""
        self._server.close()

    def __repr__(self) -> str:
        return f"Server({self.url!r})"


def _models(model: Union[_ModelArg, Mapping[str, _ModelArg], None]) -> Iterator[_Served]:
    if model is None:
        return
    if isinstance(model, Mapping):
        for name, one in model.items():
            yield _served(name, one)
    else:
        yield _served(None, model)


def _served(name: Optional[str], model: _ModelArg) -> _Served:
    loaded = getattr(model, "_model", None)
    if isinstance(loaded, _lamina.Model):
        return name, None, loaded
    try:
        path = os.fsdecode(model)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidRequestError(f"model takes a path, an LLM or a dict of these, but {model!r} was given") from None
    return name, path, None


def _options(options: Dict[str, Any]) -> Iterator[Tuple[str, str]]:
    for name, value in options.items():
        for text in _texts(name, value):
            yield name, text


def _texts(name: str, value: Any) -> List[str]:
    """A value as it would stand on a command line: once, or as often as a list is long."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, (str, int, float)):
        return [str(value)]
    if isinstance(value, os.PathLike):
        return [os.fsdecode(value)]
    if isinstance(value, Mapping):
        if name == "chat_template_kwargs":
            return [json.dumps(value)]
        return [f"{key}={one}" for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in _texts(name, one)]
    raise InvalidRequestError(f"{name} takes a text, a number, True or False, or a list of these")
