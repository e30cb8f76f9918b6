"""A disk that is full, without one."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_from(size: int) -> Iterator[None]:
    """Let this process, and what it starts, write no file of more bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
