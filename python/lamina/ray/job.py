"""A job over files of rows: its parts, each of which is written once, whatever is killed meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..errors import InvalidRequestError

# Rows of a part: what is computed again where a job is cut.
ROWS = 1024


@dataclass(frozen=True)
class JobPart:
    """Rows that are answered and written together."""

    number: int
    """Among all parts of the job."""
    file: str
    """Name of the file that they are from."""
    first: int
    """Place of the first one in the file; lines without anything do not count."""
    lines: List[str]
    """The rows, as they stand there."""

    def seed(self, job: int, place: int) -> int:
        """The seed of one row: the same wherever and however often it is answered.

        Args:
            job: that of the job.
            place: of the row in this part.
        """
        return seed_of(job, f"{self.file}\0{self.first + place}")


def seed_of(job: int, row: str) -> int:
    """A seed for a row that is known by a text.

    Args:
        job: the seed of all rows.
        row: what tells it from others.
    """
    return int.from_bytes(hashlib.sha256(f"{job}\0{row}".encode()).digest()[:8], "little") >> 1


class JobFolder:
    """The folder that a job writes to. A part is written beside, and gets its name when it is whole: so a part that is there has
    been answered, and no row is in it twice.

    Args:
        sources: files of JSON lines.
        folder: where the parts are written; made where it is not there.
        facts: what the answers depend on: a folder of other ones is refused.
        rows: of a part.

    Raises:
        InvalidRequestError: a file is not there, or the folder has another job.
    """

    def __init__(self, sources: Sequence[Path], folder: Path, facts: Dict[str, Any], rows: int = ROWS) -> None:
        self._sources, self._folder, self._rows = list(sources), folder, rows
        names = [source.name for source in self._sources]
        if not names or len(set(names)) < len(names):
            raise InvalidRequestError("a job needs files, each with a name of its own")
        folder.mkdir(parents=True, exist_ok=True)
        files = [{"name": source.name, **_content(source)} for source in self._sources]
        self._manifest = {"format": "lamina-job", "version": 1, "rows": rows, "files": files, **facts}
        self._lock = _locked(folder / "job.lock")
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        path = self._folder / "job.json"
        if path.exists():
            old = json.loads(path.read_text(encoding="utf-8"))
            for name in sorted(set(old) | set(self._manifest)):
                if old.get(name) != self._manifest.get(name):
                    raise InvalidRequestError(
                        f"{self._folder} has the answers of another job, with {name} {_short(old.get(name))} "
                        f"and not {_short(self._manifest.get(name))}: take another folder"
                    )
        else:
            self._put(path, json.dumps(self._manifest, indent=1, sort_keys=True) + "\n")
        # What was cut while it was written.
        for left in self._folder.glob(".*.tmp"):
            left.unlink()

    def parts(self) -> Iterator[JobPart]:
        """Parts that are not written yet, in order."""
        number = 0
        for source in self._sources:
            first = 0
            for lines in self._cut(source):
                if not self._path(number).exists():
                    yield JobPart(number, source.name, first, lines)
                first, number = first + len(lines), number + 1

    def _cut(self, source: Path) -> Iterator[List[str]]:
        lines: List[str] = []
        with open(source, encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    lines.append(line.strip())
                if len(lines) == self._rows:
                    yield lines
                    lines = []
        if lines:
            yield lines

    def write(self, part: JobPart, rows: Sequence[Dict[str, Any]]) -> None:
        """Writes the answers of a part.

        Args:
            part: what was asked.
            rows: one for each of its rows, in their order.
        """
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        self._put(self._path(part.number), text)

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number:06}.jsonl"

    def _put(self, path: Path, text: str) -> None:
        new = path.with_name(f".{path.name}.tmp")
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        if os.name == "posix":
            # The name is on disk when its folder is.
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def close(self) -> None:
        """Lets others work on the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _content(source: Path) -> Dict[str, Any]:
    digest = hashlib.sha256()
    try:
        with open(source, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
            return {"bytes": file.tell(), "sha256": digest.hexdigest()}
    except OSError as error:
        raise InvalidRequestError(f"{source}: {error.strerror}") from None


def _locked(path: Path) -> Optional[int]:
    """A lock that ends with the process, however that ends; none where the system has no such."""
    try:
        import fcntl
    except ImportError:
        return None
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InvalidRequestError(f"{path.parent} is written by another job now") from None
    return lock


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
