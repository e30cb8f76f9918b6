"""Whatever a user's file does to the process that imports it is one line, and the plan goes on."""

from pathlib import Path

import pytest

from ntk_conditioning.errors import UserError
from ntk_workflow import trial
from ntk_workflow.trial import Trial

ROOT = Path(__file__).parents[2]
SWISH, NETWORK = (ROOT / "examples" / name for name in ("swish.py", "own_network.py"))

FILES = {
    "import os; os._exit(0)": "ends the process that imports it, with exit code 0",
    "import os; os.abort()": "ends the process that imports it, by SIGABRT",
    "import os; os.kill(os.getppid(), 9)": "ends the process that tries it",
    "while True: pass": "takes longer than 1 s",
    "import time; time.sleep(9)": "takes longer than 1 s",
    "input()": "EOFError: EOF when reading a line",
    "raise SystemExit(3)": "SystemExit: 3",
    "raise KeyboardInterrupt": "KeyboardInterrupt: ",
    "print('hello')": "OutputError: it prints 'hello'; remove that",
    "x = bytearray(b'1') * 10**10": "MemoryError: ",
    "x = 1": "registers no activation; call register(Activation(...))",
    f"{SWISH.read_text()}\nimport threading\nthreading.Timer(99, print).start()": "leaves a thread",
    SWISH.read_text(): "",
}


@pytest.fixture(scope="module")
def trials():
    with pytest.MonkeyPatch.context() as patch, Trial() as made:
        patch.setattr(trial, "SECONDS", 1.0)
        yield made


@pytest.mark.parametrize("text", FILES)
def test_a_file_is_tried_before_it_is_imported(tmp_path, trials, text):
    path = tmp_path / "mine.py"
    path.write_text(text)
    if not FILES[text]:
        assert trials.activations(str(path)) == {"swish": pytest.approx((0, 0), abs=1e-13)}
        return
    for _ in range(2):  # the second time from memory
        with pytest.raises(UserError) as raised:
            trials.activations(str(path))
        assert str(raised.value).startswith(f"{path}: {FILES[text]}")
        assert "\n" not in str(raised.value)


def test_networks_are_tried(trials):
    trials.network(str(NETWORK), "build")
    size = {"d": 64, "image": (8, 8, 1), "depth": 1, "width": 4, "outputs": 3, "predict": True}
    given = {"plugins": [str(SWISH)], **size}
    assert trials.trainable(str(NETWORK), "build", "swish", **given) is False
    with pytest.raises(UserError, match=r"own_network.py: bild\(\) is not there"):
        trials.network(str(NETWORK), "bild")
    with pytest.raises(UserError, match=r"build\(\) fails at depth 1, width 6"):
        trials.trainable(str(NETWORK), "build", "swish", **given | {"width": 6})


HANGS = """
def build(*, depth, width, activation, shape, outputs, generator):
    {statement}
"""


@pytest.mark.parametrize("statement", ["while True: pass", "import time; time.sleep(9)"])
def test_a_network_that_hangs_is_waited_for_once(tmp_path, trials, statement):
    path = tmp_path / "mine.py"
    path.write_text(HANGS.format(statement=statement))
    size = {"d": 4, "image": None, "width": 4, "outputs": 3, "predict": False}
    for depth in range(40):
        with pytest.raises(UserError, match=r"mine.py: takes longer than 1 s to build"):
            trials.trainable(str(path), "build", "relu", plugins=[], depth=depth, **size)


def test_each_network_has_its_time(tmp_path, trials):
    path = tmp_path / "mine.py"
    wait, body = "import time; time.sleep(0.4)\n", "    layers, channels ="
    path.write_text(wait + NETWORK.read_text().replace(body, f"    {wait}{body}"))
    size = {"d": 64, "image": (8, 8, 1), "depth": 1, "width": 4, "outputs": 3, "predict": True}
    assert trials.trainable(str(path), "build", "relu", plugins=[], **size) is False


def test_what_another_process_has_tried_is_believed():
    with Trial(needed=False) as trials:
        assert trials.activations("absent.py") == {}
