"""One file of a dataset brought into place: resumed, retried, checked, and whole or not there.

What has come is kept beside the target in ``.{name}.part``, with a note of where it came from, and
is continued by the next attempt, the next run or the next source. Only a file with an accepted
sha256 ever takes the target's name, so whatever a server does ends in the right bytes or in one
line that says what each address said.

`source` asks one address until it has given the file or is given up, `partial` is the file as it
grows, `progress` tells of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import filelock

from ntk_conditioning import files
from ntk_conditioning.errors import UserError
from ntk_workflow.downloads.partial import PlaceError, beside, naming
from ntk_workflow.downloads.source import Fetched, Job, Patience, RefusedError, local_path

__all__ = ["Fetched", "MirrorError", "NotAvailableError", "Patience", "PlaceError", "fetch"]

log = logging.getLogger(__name__)

PATIENCE = Patience()
"""What `fetch` has when nothing is said."""


class NotAvailableError(UserError):
    """No source has the file."""


class MirrorError(UserError):
    """The mirror is not a place that files are fetched from."""


def fetch(
    target: Path,
    *,
    name: str,
    sha256: Sequence[str],
    mirror: str = "",
    urls: Sequence[str] = (),
    size: int | None = None,
    patience: Patience = PATIENCE,
) -> Fetched:
    """Return what ``target`` is, after fetching it from the first source that has it.

    Concurrent calls for one target, also in other processes, wait for each other. A wrong file at
    ``target`` is replaced only by a right one.

    Args:
        name: its name in the catalogue, below a mirror and in messages.
        sha256: accepted checksums, the official file's first.
        mirror: folder, file:// or http(s) base address that is asked first; "" for none.
        urls: addresses of the file itself, asked in this order.
        size: bytes of the official file, if known.

    Raises:
        MirrorError: if ``mirror`` is no such place.
        NotAvailableError: if no source has the file.
        PlaceError: if the file cannot be written.
    """
    accepted = [digest.lower() for digest in sha256]
    if (here := _in_place(target, accepted)) is not None:
        return here
    sources = list(dict.fromkeys([*_in_mirror(mirror, name), *urls]))
    said = []
    if sources:
        with _alone(target, name=name, size=size, report=patience.report):
            if (here := _in_place(target, accepted)) is not None:
                return here
            for source in sources:
                job = Job(target, name, source, accepted, size, patience)
                try:
                    return job.fetch()
                except RefusedError as refusal:
                    said.append(f"{job.shown}: {refusal}")
                    if source != sources[-1]:
                        log.info("%s: %s; trying the next source", name, said[-1])
    wrong = f", {target} has another sha256" if target.exists() else ""
    raise NotAvailableError(
        f"{name} cannot be fetched{wrong}: "
        f"{'; '.join(said) or 'no mirror is given and no address is known'}; "
        f"get the file with sha256 {accepted[0]} by hand and save it as {target}, or "
        "name a mirror that has it: --config mirror=DIR"
    )


def _in_place(target: Path, accepted: Sequence[str]) -> Fetched | None:
    if not target.is_file():
        return None
    try:
        digest = files.sha256(target)
        size = target.stat().st_size
    except OSError as error:
        raise PlaceError(f"cannot read {target}: {error.strerror}") from None
    return Fetched(source=None, sha256=digest, size=size) if digest in accepted else None


def _in_mirror(mirror: str, name: str) -> list[str]:
    """Return the place of a file in a mirror: a path, or an address; or none."""
    if not mirror:
        return []
    scheme, is_address, _ = mirror.partition("://")
    if not is_address:
        return [str(Path(mirror) / name)]
    if scheme in ("http", "https"):
        return [f"{mirror.rstrip('/')}/{quote(name)}"]
    folder = local_path(mirror)
    if folder is None:
        raise MirrorError(f"mirror {mirror} is neither a folder nor a file:// or http(s) address")
    return [str(folder / name)]


@contextmanager
def _alone(target: Path, *, name: str, size: int | None, report: float) -> Iterator[None]:
    """Hold the lock beside the target; the system frees it whatever becomes of the process."""
    lock = filelock.FileLock(beside(target, "lock"))
    with naming(target, size):
        target.parent.mkdir(parents=True, exist_ok=True)
        timeout = 0.0
        while not lock.is_locked:
            try:
                lock.acquire(timeout=timeout)
            except filelock.Timeout:
                log.info("%s: another process is fetching it; waiting", name)
                timeout = report
    try:
        yield
    finally:
        lock.release()
