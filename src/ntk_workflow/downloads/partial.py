"""A file as it grows: its bytes, their sha256, and a note of where they came from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ntk_conditioning.errors import UserError

_CHUNK = 1 << 20


class PlaceError(UserError):
    """The file cannot be written where it is to be."""


def beside(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{suffix}")


@contextmanager
def naming(path: Path, needed: int | None) -> Iterator[None]:
    """Tell the system's errors in writing as a `PlaceError`."""
    try:
        yield
    except OSError as error:
        room = f"; the file needs {needed} bytes there" if needed else ""
        raise PlaceError(f"cannot write {path}: {error.strerror or error}{room}") from error


@dataclass(frozen=True)
class Note:
    """Where the beginning of a file came from, and what the server told of the whole."""

    source: str
    etag: str | None = None
    modified: str | None = None
    total: int | None = None

    @classmethod
    def read(cls, path: Path) -> Note | None:
        """Return the note, or None if there is no sound one."""
        with suppress(OSError, ValueError, TypeError):
            note = cls(**json.loads(path.read_text(encoding="utf-8")))
            texts = (note.source, note.etag or "", note.modified or "")
            if all(isinstance(text, str) for text in texts) and isinstance(note.total or 0, int):
                return note
        return None

    @property
    def validator(self) -> str | None:
        """What If-Range takes: a strong ETag, else the date."""
        strong = self.etag is not None and not self.etag.startswith("W/")
        return self.etag if strong else self.modified

    def agrees(self, other: Note) -> bool:
        """Return whether nothing that both tell speaks for two different files."""
        pairs: list[tuple[object, object]] = [(self.total, other.total)]
        if self.source == other.source:  # a copy elsewhere has its own ETag and date
            pairs += [(self.etag, other.etag), (self.modified, other.modified)]
        return all(None in pair or pair[0] == pair[1] for pair in pairs)


class Partial:
    """A file that is growing on the disk, and the sha256 of what it has."""

    def __init__(self, path: Path, *, needed: int | None) -> None:
        self.path = path
        self.note_path = path.with_name(f"{path.name}.json")
        self.needed = needed
        self.size = 0
        self.resumed = False
        self._digest = hashlib.sha256()
        self.note = Note.read(self.note_path)
        if self.note is None or not path.is_file():
            return
        self.needed = self.note.total or needed
        with naming(path, needed), path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                self._digest.update(chunk)
                self.size += len(chunk)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def restart(self, note: Note | None) -> None:
        """Empty the file. A note is on the disk before the first byte that it is about."""
        self.size, self.resumed, self.note = 0, False, note
        self._digest = hashlib.sha256()
        with naming(self.path, self.needed):
            self.path.write_bytes(b"")
            if note is not None:
                self.needed = note.total or self.needed
                self.note_path.write_text(json.dumps(asdict(note)), encoding="utf-8")

    def append(self, chunks: Iterable[bytes]) -> None:
        # Unbuffered: what has come survives a kill, and closing has nothing left to write.
        with self._opened() as stream:
            for chunk in chunks:
                rest = memoryview(chunk)
                while rest:
                    with naming(self.path, self.needed):
                        rest = rest[stream.write(rest) :]
                self._digest.update(chunk)
                self.size += len(chunk)

    def install(self, target: Path) -> None:
        with self._opened() as stream, naming(target, self.needed):
            os.fsync(stream.fileno())
            os.replace(self.path, target)
            self.note_path.unlink(missing_ok=True)

    def discard(self) -> None:
        self.size, self.resumed, self.note = 0, False, None
        self._digest = hashlib.sha256()
        with naming(self.path, self.needed):
            self.path.unlink(missing_ok=True)
            self.note_path.unlink(missing_ok=True)

    def _opened(self) -> Any:
        with naming(self.path, self.needed):
            return self.path.open("ab", buffering=0)
