"""Jobs: a model over many rows, on as many machines as the cluster has, or in this process."""

from __future__ import annotations

import asyncio
import glob
import importlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ..errors import InvalidRequestError, LaminaError, UnsupportedError
from .job import ROWS, JobFolder, JobPart
from .worker import ERROR, BlockWorker, JobSettings, Worker

_log = logging.getLogger("lamina.job")
# Parts that a model has at once: the next one fills what the last rows of one leave free.
_AT_ONCE = 2


@dataclass
class JobCounts:
    """What has become of a job."""

    rows: int = 0
    """Rows that were answered now."""
    errors: int = 0
    """Of these, rows that have an `error` in the place of an answer."""
    parts: int = 0
    """Parts that were written now; those that were there are not counted."""


class Processor:
    """Answers rows of a dataset, or of files of JSON lines.

    Each row has a seed of its own, and answers do not depend on what else runs: so a row has the same answer on any machine, beside
    any others, and again after a failure.

    Args:
        model: a name or a path, which every machine must know; the model in the package without one.
        prompt: what is asked, with the row's columns in braces: `"{question}"`. Without it a row has `messages` or `prompt`.
        replicas: models in the cluster, or the least and the most; 0 answers in this process, without Ray.
        cpus: what Ray keeps for each; it has as many threads.
        gpus: likewise.
        seed: that of all rows; each has its own, made of it and of its place (of what it asks, in a dataset).
        columns: names of what is added to a row: text, tokens, and why the answer ended. A row that could not be answered has `error`.
        load: options of `LLM`.
        sampling: options of `LLM.generate`, such as `max_tokens`.

    Examples:
        >>> answers = Processor("model.gguf", prompt="{question}", max_tokens=256, cpus=16)
        >>> answers.run("questions.jsonl", "answers/")
        JobCounts(rows=4000, errors=0, parts=4)
    """

    def __init__(
        self,
        model: Optional[str] = None,
        *,
        prompt: Optional[str] = None,
        replicas: Union[int, Tuple[int, int]] = 1,
        cpus: float = 1,
        gpus: float = 0,
        seed: int = 0,
        columns: Tuple[str, str, str] = ("text", "tokens", "finish_reason"),
        load: Optional[Mapping[str, Any]] = None,
        **sampling: Any,
    ) -> None:
        least, most = (replicas, replicas) if isinstance(replicas, int) else replicas
        if not 0 <= least <= most:
            raise InvalidRequestError(f"replicas are {replicas}, but must be a number, or the least and the most")
        if "n" in sampling or "stream" in sampling:
            raise InvalidRequestError("n and stream are no options of a job: each row has one answer")
        if len(set(columns)) != 3 or ERROR in columns:
            raise InvalidRequestError(f"columns are {columns}, but must be three names, none of them `error`")
        threads = {"threads": int(cpus)} if cpus >= 1 else {}
        self._settings = JobSettings(
            None if model is None else str(model), prompt, seed, columns, {**threads, **(load or {})}, sampling
        )
        self._range, self._needs = (least, most), {"num_cpus": cpus, "num_gpus": gpus}

    def __call__(self, dataset: Any, block: int = ROWS) -> Any:
        """The dataset with the columns of the answers. A row's seed is made of what it asks.

        Args:
            dataset: of Ray Data.
            block: rows that a model is given at a time.
        """
        least, most = self._range
        if least == 0:
            raise InvalidRequestError("replicas are 0, which answers files alone: a dataset needs one at least")
        data = needed("ray.data")
        pool = data.ActorPoolStrategy(min_size=least, max_size=most, max_tasks_in_flight_per_actor=_AT_ONCE)
        given = {"fn_constructor_args": (self._settings,), "batch_size": block, "batch_format": "numpy"}
        return dataset.map_batches(BlockWorker, compute=pool, max_concurrency=_AT_ONCE, **given, **self._needs)

    def run(
        self,
        source: Union[str, Path, Sequence[Union[str, Path]]],
        folder: Union[str, Path],
        *,
        address: Optional[str] = None,
        max_errors: Optional[int] = None,
        rows: int = ROWS,
    ) -> JobCounts:
        """Answers files of JSON lines, a row a line, and writes parts of JSON lines into a folder. What a killed job has written stays:
        the same call goes on behind it, and each row is there once.

        Args:
            source: a file, a pattern such as `in/*.jsonl`, or a list of files.
            folder: where `part-000000.jsonl` and so on are written, with `job.json`, which says of what.
            address: of the cluster; without it, Ray's own choice. It needs the files at none but this machine.
            max_errors: so many rows may have an error before the job ends; without it any number.
            rows: of a part.

        Raises:
            InvalidRequestError: there are no such files, or the folder has another job.
            LaminaError: too many rows have errors, or the model cannot be loaded.
        """
        if rows < 1:
            raise InvalidRequestError(f"rows is {rows}, but must be at least 1")
        out = JobFolder(_files(source), Path(folder), self._settings.facts(), rows)
        counts = JobCounts()
        try:
            for part, answers in self._answered(out.parts(), address):
                out.write(part, answers)
                counts.rows, counts.parts = counts.rows + len(answers), counts.parts + 1
                wrong = [row[ERROR] for row in answers if ERROR in row]
                counts.errors += len(wrong)
                _log.info("part %d of %s: %d rows, %d errors", part.number, part.file, len(answers), len(wrong))
                if max_errors is not None and counts.errors > max_errors:
                    raise LaminaError(f"{counts.errors} rows have errors, the last one: {wrong[-1]}")
        finally:
            out.close()
        return counts

    def _answered(self, parts: Iterator[JobPart], address: Optional[str]) -> Iterator[Tuple[JobPart, List[Dict[str, Any]]]]:
        """Parts with their answers, in the order in which they end."""
        first = next(parts, None)
        if first is None:
            return
        if self._range[1] == 0:
            yield from self._here(first, parts)
        else:
            yield from self._there(first, parts, address)

    def _here(self, first: JobPart, parts: Iterator[JobPart]) -> Iterator[Tuple[JobPart, List[Dict[str, Any]]]]:
        worker = Worker(self._settings)
        loop = asyncio.new_event_loop()
        try:
            running: Dict["asyncio.Task[List[Dict[str, Any]]]", JobPart] = {}
            part: Optional[JobPart] = first
            while part is not None or running:
                while part is not None and len(running) < _AT_ONCE:
                    running[loop.create_task(worker.answers(part.lines, self._seeds(part)))] = part
                    part = next(parts, None)
                done, _ = loop.run_until_complete(asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))
                for task in done:
                    yield running.pop(task), task.result()
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
            worker.close()

    def _there(
        self, first: JobPart, parts: Iterator[JobPart], address: Optional[str]
    ) -> Iterator[Tuple[JobPart, List[Dict[str, Any]]]]:
        ray = needed("ray")
        own = not ray.is_initialized()
        if own:
            ray.init(address=address, log_to_driver=False)
        # An actor that is lost comes back with its model, and is asked again: the answers are the same.
        actor = ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=_AT_ONCE, **self._needs)(Worker)
        workers = [actor.remote(self._settings) for _ in range(self._replicas(ray))]
        try:
            running: Dict[Any, Tuple[JobPart, Any]] = {}
            idle = [worker for _ in range(_AT_ONCE) for worker in workers]
            part: Optional[JobPart] = first
            while part is not None or running:
                while part is not None and idle:
                    worker = idle.pop(0)
                    running[worker.answers.remote(part.lines, self._seeds(part))] = (part, worker)
                    part = next(parts, None)
                done, _ = ray.wait(list(running), num_returns=1)
                for answer in done:
                    ended, worker = running.pop(answer)
                    idle.append(worker)
                    yield ended, _got(ray, answer)
        finally:
            for worker in workers:
                ray.kill(worker)
            if own:
                ray.shutdown()

    def _replicas(self, ray: Any) -> int:
        """As many as the cluster has room for now, within the range."""
        least, most = self._range
        free = ray.available_resources()
        room = [int(free.get(kind, 0) // n) for kind, n in zip(("CPU", "GPU"), self._needs.values()) if n > 0]
        return max(least, 1, min([most, *room]))

    def _seeds(self, part: JobPart) -> List[int]:
        return [part.seed(self._settings.seed, place) for place in range(len(part.lines))]


def _got(ray: Any, answer: Any) -> List[Dict[str, Any]]:
    """An answer of an actor; its error is that of this package where it was one there."""
    try:
        return list(ray.get(answer))
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        raise LaminaError(str(cause if cause is not None else error)) from None
    except ray.exceptions.RayActorError as error:
        raise LaminaError(f"the model could not be started: {error}") from None


def _files(source: Union[str, Path, Sequence[Union[str, Path]]]) -> List[Path]:
    if not isinstance(source, (str, Path)):
        return [Path(one) for one in source]
    found = sorted(glob.glob(str(source))) if any(c in str(source) for c in "*?[") else [str(source)]
    if not found:
        raise InvalidRequestError(f"there are no files {source}")
    return [Path(one) for one in found]


def needed(module: str) -> Any:
    """A module of Ray.

    Raises:
        UnsupportedError: it is not installed; the message says what to do.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedError(f'lamina.ray needs Ray: pip install "lamina[ray]" ({error})') from None
