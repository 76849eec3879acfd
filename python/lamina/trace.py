"""`Trace`: what happened between a prompt and its answer."""

from __future__ import annotations

import gzip
import html
import importlib
import json
import os
from typing import Any, Dict, List, Optional

import numpy as np

from . import _lamina
from .errors import InvalidRequestError
from .types import Path


class Columns:
    """The columns of one event, by name: `steps["machine"]` is a numpy array, or a list where values are texts or lists."""

    def __init__(self, columns: Dict[str, List[Any]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return max((len(column) for column in self._columns.values()), default=0)

    def __getitem__(self, name: str) -> Any:
        column = self._columns[name]
        numbers = all(isinstance(value, (int, float)) for value in column)
        return np.array(column) if numbers else list(column)

    def names(self) -> List[str]:
        """Names of the columns."""
        return list(self._columns)

    def to_dict(self) -> Dict[str, Any]:
        """The columns by name."""
        return {name: self[name] for name in self._columns}

    def to_pandas(self) -> Any:
        """The columns as `pandas.DataFrame`; pandas is imported here."""
        return importlib.import_module("pandas").DataFrame(self._columns)

    def __repr__(self) -> str:
        return f"Columns({len(self)} rows: {', '.join(self._columns)})"


class Figure:
    """One figure of a trace, as SVG; notebooks show it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: Path) -> None:
        """Writes it as an .svg file. The page has a button that saves a PNG."""
        if not str(os.fspath(path)).endswith(".svg"):
            raise InvalidRequestError(f"{str(path)!r} does not end in .svg; for a PNG use the button of the page")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def _repr_svg_(self) -> str:
        return self.svg


class Trace:
    """What happened between prompts and their answers: steps, operators, pages, and each token with its candidates.

    Notebooks show the page; elsewhere its findings are printed.

    Examples:
        >>> trace = llm.trace("Once upon a time", max_tokens=64)
        >>> trace.save("trace.html")
        >>> trace.figure("limits").save("limits.svg")
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._old: Optional[str] = None
        self.data: Dict[str, Any] = json.loads(text)
        """All of it, as in the file."""
        self._summary: Dict[str, Any] = json.loads(_lamina.trace_form(text, "summary"))

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Reads a recording that `save` or `lamina trace -o FILE.json` has written.

        Args:
            path: the file, .json or .json.gz.
        """
        name = os.fspath(path)
        opened = gzip.open(name, "rt", encoding="utf-8") if str(name).endswith(".gz") else open(name, encoding="utf-8")
        with opened as file:
            return cls(file.read())

    def against(self, other: Trace) -> Trace:
        """This recording beside an older one, as `lamina trace --against` shows it: times of both on one scale first, then each
        figure's sentence with the difference, and on the page the older figure below. Its data stay those of this one.

        Args:
            other: the older recording.
        """
        both = Trace(self._text)
        both._old = other._text
        return both

    def save(self, path: Path) -> None:
        """Writes the page (.html), the recording (.json, .json.gz), or trace events for Perfetto (.chrome.json).

        Args:
            path: the file; its ending says which.
        """
        name = str(os.fspath(path))
        if name.endswith(".html"):
            text = self.html
        elif name.endswith(".chrome.json"):
            text = self._form("chrome")
        elif name.endswith((".json", ".json.gz")):
            text = self._text
        else:
            raise InvalidRequestError(f"{name!r} ends in none of .html .json .json.gz .chrome.json")
        opened = gzip.open(name, "wt", encoding="utf-8") if name.endswith(".gz") else open(name, "w", encoding="utf-8")
        with opened as file:
            file.write(text)

    @property
    def html(self) -> str:
        """The page: one file that asks nobody for anything."""
        return self._form("page")

    @property
    def summary(self) -> Dict[str, Any]:
        """Tokens, times, speeds, and what memory and arithmetic would need."""
        return dict(self._summary)

    @property
    def figures(self) -> List[str]:
        """Names of the figures that this trace has data for."""
        return self._form("figures").split()

    def figure(self, name: str) -> Figure:
        """One figure by its name.

        Args:
            name: one of `figures`.
        """
        return Figure(self._form(name))

    @property
    def text(self) -> str:
        """Text of the first answer."""
        requests = self.data["requests"]
        return str(requests[0]["text"]) if requests else ""

    @property
    def steps(self) -> Columns:
        """Steps, with the nanoseconds of each phase."""
        return self._columns("step")

    @property
    def ops(self) -> Columns:
        """Operators, with the nanoseconds of each."""
        return self._columns("op")

    @property
    def tokens(self) -> Columns:
        """Chosen tokens."""
        return self._columns("token")

    @property
    def stages(self) -> Columns:
        """What tokens were chosen from, sampler by sampler."""
        return self._columns("stage")

    @property
    def texts(self) -> Columns:
        """Texts that went out: one for each token that has one, and the rest behind the last."""
        return self._columns("text")

    @property
    def streams(self) -> Columns:
        """What was read or sent for weights that do not stay in memory, while operators ran."""
        return self._columns("stream")

    @property
    def lens(self) -> Columns:
        """What the model would have said behind each layer, where `detail` was "inside"."""
        return self._columns("lens")

    @property
    def experts(self) -> Columns:
        """Experts that rows went to, where `detail` was "inside"."""
        return self._columns("expert")

    @property
    def attention(self) -> Columns:
        """What heads attended to, in 255ths, where `detail` was "inside"."""
        return self._columns("attention")

    @property
    def sequences(self) -> Columns:
        """Beginnings, preemptions and ends of sequences."""
        return self._columns("sequence")

    @property
    def pages(self) -> Columns:
        """Pages that sequences came to."""
        return self._columns("page")

    def _form(self, name: str) -> str:
        return _lamina.trace_form(self._text, name, self._old)

    def _columns(self, event: str) -> Columns:
        # A recording of before has fewer events.
        return Columns(self.data["events"].get(event, {}))

    def __repr__(self) -> str:
        return self._form("lines")

    def _repr_html_(self) -> str:
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:44rem;border:0" title="trace"></iframe>'


class Watching:
    """All that a model does while its block runs: `with llm.watch() as watching: ...`, then `watching.trace`."""

    def __init__(self, model: _lamina.Model, detail: str) -> None:
        self._model, self._detail, self._trace = model, detail, ""

    def __enter__(self) -> Watching:
        _lamina.record(self._model, self._detail)
        return self

    def __exit__(self, *_: object) -> None:
        self._trace = _lamina.record(self._model, None) or ""

    @property
    def trace(self) -> Trace:
        """What was recorded; there once the block has ended."""
        if not self._trace:
            raise InvalidRequestError("the recording is there once the block of `watch` has ended")
        return Trace(self._trace)
