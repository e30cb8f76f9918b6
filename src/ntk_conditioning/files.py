"""Files that are whole or not there: atomic writes, and checks by sha256."""

import errno
import hashlib
import os
import secrets
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ntk_conditioning.errors import UserError


class ChecksumError(UserError):
    """A file's content is not the one that was asked for."""


class FullDiskError(UserError, OSError):
    """There is no room for a file that is to be written."""


class MissingFileError(UserError):
    """A file that is to be read is not there."""


def require_file(path: Path) -> None:
    """Raise `MissingFileError` unless ``path`` is a file."""
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise MissingFileError(f"{path} {what}; give the path of the file to read")


def sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes in hexadecimal, or raise `MissingFileError`."""
    require_file(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_sha256(path: Path, accepted: Collection[str]) -> None:
    """Raise `ChecksumError` unless the sha256 of a file is one of those ``accepted``."""
    checksum = sha256(path)
    if checksum not in accepted:
        raise ChecksumError(
            f"{path} has sha256 {checksum}, not {' or '.join(accepted)}; "
            "it is damaged or another file: delete it and fetch it again"
        )


_FULL = [os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]


@contextmanager
def room_for(target: Path, remedy: str = "make room and run again") -> Iterator[None]:
    """Raise `FullDiskError` with the target's name where a disk or quota is full in the block."""
    try:
        yield
    except FullDiskError:
        raise
    except OSError as error:
        # in words: `shutil.copytree` collects errors and has no number
        if reason := next((words for words in _FULL if words in str(error)), None):
            raise FullDiskError(f"cannot write {target}: {reason}; {remedy}") from error
        raise


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder, and delete it; raises `FullDiskError` as `room_for`."""
    remedy = "make room or set TMPDIR, and run again"
    try:
        parent = Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # it could write nowhere
        raise FullDiskError(f"{error.strerror}; {remedy}") from error
    with room_for(parent, remedy), tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def atomic(target: Path) -> Iterator[Path]:
    """Yield a path beside ``target`` to write to; on leaving, the file takes the target's name.

    Nobody ever sees a half-written target: if the block raises, the target stays as it was and
    nothing is left behind. The folder is made when missing, and the temporary name keeps the
    target's suffix, by which some writers choose their format. Raises `FullDiskError` if the disk
    or a quota is full.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "table.csv"
    >>> with atomic(target) as temporary:
    ...     _ = temporary.write_text("n,kappa")
    >>> target.read_text(), [path.name for path in target.parent.iterdir()]
    ('n,kappa', ['table.csv'])
    """
    with room_for(target):
        place = target.resolve()  # a link stays one
        place.parent.mkdir(parents=True, exist_ok=True)
        # A random name, and not a file made here: its permissions are the writer's and the umask's.
        temporary = place.with_name(f".{place.stem}-{secrets.token_hex(8)}{target.suffix}")
        try:
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())  # on the disk before the name points to it
            os.replace(temporary, place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_text(target: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all, see `atomic`."""
    with atomic(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
