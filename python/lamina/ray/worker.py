"""A model that answers rows: in an actor of Ray, or in this process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..errors import DeviceLostError, InvalidRequestError, LaminaError, OutOfMemoryError
from ..llm import LLM
from ..policy import Policy
from .job import seed_of

# What a column of a bad row is called.
ERROR = "error"


@dataclass(frozen=True)
class JobSettings:
    """What answers depend on."""

    model: Optional[str] = None
    """A name or a path; the model in the package without one."""
    prompt: Optional[str] = None
    """What is asked, with the row's columns in braces; without it a row has `messages` or `prompt`."""
    seed: int = 0
    """That of all rows."""
    columns: Tuple[str, str, str] = ("text", "tokens", "finish_reason")
    """Names of what is added to a row."""
    load: Mapping[str, Any] = field(default_factory=dict)
    """Options of `LLM`."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Options of `LLM.generate`."""

    def facts(self) -> Dict[str, Any]:
        """All of them, as JSON has it."""
        facts = {name: getattr(self, name) for name in ("model", "prompt", "seed", "columns", "load", "sampling")}
        return dict(json.loads(json.dumps(facts, default=repr, sort_keys=True)))

    def asked(self, row: Mapping[str, Any]) -> Any:
        """What is asked for a row: a text, token ids or messages.

        Raises:
            InvalidRequestError: the row lacks a column, or has one of the answer.
        """
        both = [name for name in (*self.columns, ERROR) if name in row]
        if both:
            raise InvalidRequestError(f"the row has `{both[0]}` already: give other names with columns=(..)")
        if self.prompt is not None:
            try:
                return self.prompt.format_map(row)
            except (KeyError, IndexError, AttributeError, ValueError) as error:
                raise InvalidRequestError(f"the row has no {error} for the prompt {self.prompt!r}") from None
        found = next((row[name] for name in ("messages", "prompt") if name in row), None)
        if found is None:
            raise InvalidRequestError("the row has neither `messages` nor `prompt`")
        return list(found) if hasattr(found, "tolist") else found


class Worker:
    """Answers rows with a model of its own, which is loaded at first.

    Args:
        settings: with what.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._llm = LLM(settings.model, progress=False, **{"offload": Policy(objective="throughput"), **settings.load})

    async def answers(self, rows: Sequence[Any], seeds: Sequence[int]) -> List[Dict[str, Any]]:
        """Answers of rows, in their order: the row with what is added to it.

        Args:
            rows: objects, or lines of JSON.
            seeds: one for each.
        """
        asked: List[Any] = []
        read: List[Dict[str, Any]] = []
        for row in rows:
            given, question = self._read(row)
            read.append(given)
            asked.append(question)
        # Those that begin alike come one after another: their beginning is computed once.
        order = sorted(range(len(rows)), key=lambda i: json.dumps(asked[i], default=str))
        done = await asyncio.gather(*(self._answer(asked[i], seeds[i]) for i in order))
        answers = {i: {**read[i], **answer} for i, answer in zip(order, done)}
        return [answers[i] for i in range(len(rows))]

    def _read(self, row: Any) -> Tuple[Dict[str, Any], Any]:
        """A row and what it asks, or why that is not known."""
        given = row
        if isinstance(row, str):
            try:
                given = json.loads(row)
            except ValueError as error:
                return {"line": row}, InvalidRequestError(f"the row is no JSON: {error}")
        if not isinstance(given, Mapping):
            return {"line": row}, InvalidRequestError("the row is no object")
        try:
            return dict(given), self._settings.asked(given)
        except InvalidRequestError as error:
            return dict(given), error

    async def _answer(self, asked: Any, seed: int) -> Dict[str, Any]:
        """What is added to a row: its answer, or why there is none."""
        text, tokens, finish = self._settings.columns
        try:
            if isinstance(asked, InvalidRequestError):
                raise asked
            chat = isinstance(asked, list) and bool(asked) and isinstance(asked[0], Mapping)
            call = self._llm.achat if chat else self._llm.agenerate
            answer = await call(asked, seed=seed, **self._settings.sampling)
            return {text: answer.text, tokens: list(answer.tokens), finish: answer.finish_reason}
        except (DeviceLostError, OutOfMemoryError):
            raise
        except (LaminaError, TypeError, ValueError) as error:
            return {ERROR: str(error)}

    def close(self) -> None:
        """Frees the model."""
        self._llm.close()


class BlockWorker(Worker):
    """A `Worker` for blocks of a dataset, of which several are answered at once: the next one fills what the last rows of one leave
    free."""

    async def __call__(self, block: Dict[str, Any]) -> AsyncIterator[Dict[str, Any]]:
        names = list(block)
        rows = [dict(zip(names, values)) for values in zip(*(block[name] for name in names))]
        seeds = [seed_of(self._settings.seed, self._told(row)) for row in rows]
        answered = await self.answers(rows, seeds)
        added = (*self._settings.columns, ERROR)
        yield {**block, **{name: _column([row.get(name) for row in answered]) for name in added}}

    def _told(self, row: Mapping[str, Any]) -> str:
        """What a row of a dataset is known by: what it asks. Equal ones have equal answers."""
        try:
            return json.dumps(self._settings.asked(row), default=str)
        except InvalidRequestError:
            return ""


def _column(values: List[Any]) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
