"""Settings of every test: few threads, no display, no proxy, and deterministic properties."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

# Before NumPy and torch are loaded: test workers run side by side.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
THREADS = os.environ["OMP_NUM_THREADS"]
os.environ.setdefault("MPLBACKEND", "agg")
# Servers on loopback are reached directly, whatever the machine's proxy is.
for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[variable]

hypothesis.settings.register_profile(
    "project", deadline=None, derandomize=True, max_examples=50, database=None
)
hypothesis.settings.load_profile("project")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of whole runs first, in random order too: what is long is not to start last."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/workflow/", "tests/notebooks/")))
    items.sort(key=lambda item: not item.nodeid.startswith("tests/slurm/"))


@pytest.fixture(autouse=True)
def _few_threads() -> Iterator[None]:
    """Take back the threads that a program was given that a test has run in this process."""
    yield
    if os.environ["OMP_NUM_THREADS"] != THREADS:
        from ntk_conditioning.threads import limit_threads

        limit_threads(int(THREADS))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch use one thread, as programs do that train, whatever tests before have set."""
    import torch  # heavy, and most tests do without

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def activation_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a test registers."""
    from ntk_conditioning.networks import activations

    monkeypatch.setattr(activations, "_REGISTRY", dict(activations._REGISTRY))
    monkeypatch.setattr(activations, "_PLUGINS", set())
    yield
    activations.get.cache_clear()
