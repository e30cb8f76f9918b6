"""Hostile configs, catalogues, papers, data, activations and networks: each must be one line.

`python -m tests.attack.inputs [FAMILY ...]` plans with all of them, each in a process of its own,
and prints a table of what was refused; tests/attack/test_inputs.py takes a few of every family.
"""

import contextlib
import io
import json
import math
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from snakemake.utils import update_config

from ntk_workflow import config
from ntk_workflow.plan import ConfigError, Plan

ROOT = Path(__file__).parents[2]
#: What planning may take.
SECONDS, MEGABYTES = 10, 500


@dataclass(frozen=True)
class Case:
    """Files of a hostile user's, among them mine.yaml, the overlay that planning begins with."""

    family: str
    name: str
    files: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """What planning said, and what it took."""

    lines: list[str]
    crashed: bool
    seconds: float
    megabytes: float

    @property
    def verdict(self) -> str:
        if self.crashed:
            return "crashed"
        if not self.lines:
            return "accepted"
        (line, *more) = self.lines
        fine = not more and line.isprintable() and 20 < len(line) < 1200 and ": " in line
        return "refused" if fine else "badly told"


# --- families -------------------------------------------------------------------------------------


def bomb(levels: int, key: str) -> bytes:
    """Return lists of ten aliases to lists of ten aliases."""
    lines = [f"{key}: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(levels):
        lines.append(f"{key}{level}: &a{level + 1} [{', '.join([f'*a{level}'] * 10)}]")
    return "\n".join(lines).encode()


def merges(levels: int) -> bytes:
    """Return mappings that merge the one before twice."""
    lines = ["m: &m0 {k: 1}"]
    lines += [f"m{n}: &m{n + 1} {{<<: [*m{n}, *m{n}], k{n}: 1}}" for n in range(levels)]
    return "\n".join(lines).encode()


#: Texts that are no YAML, or none that anyone writes by hand.
TEXTS: dict[str, bytes] = {
    "bomb": bomb(9, "a"),
    "bomb of merges": merges(60),
    "list in itself": b"a: &a [*a]\n",
    "mapping in itself": b"a: &a {b: *a}\n",
    "deep flow": b"[" * 100_000,
    "deep mapping": b"{a: " * 5_000 + b"1" + b"}" * 5_000,
    "deep block": b"".join(b" " * n + b"- \n" for n in range(1_000)),
    "one line of dashes": b"- " * 60_000 + b"1\n",
    "long": b"a: 1\n" * 1_000_000,
    "many values": b"a: [" + b"1, " * 300_000 + b"1]\n",
    "hexadecimal": b"width: 0x" + b"f" * 100_000,
    "decimal": b"width: " + b"9" * 100_000,
    "sexagesimal": b"width: 1" + b":1" * 50_000,
    "exponent": b"width: 1.0e+" + b"9" * 1_000,
    "no such date": b"run: 2001-13-45\n",
    "twice": b"run: mine\nwidth: 8\nrun: other\n",
    "twice in flow": b"speech: {frames: 3, frames: 4}\n",
    "key that is a number": b"1: 2\n",
    "key that is true": b"yes: 2\n",
    "key that is null": b"~: 2\n",
    "key that is a list": b"? [1, 2]\n: 3\n",
    "key that is a mapping": b"{{a: 1}: 2}\n",
    "calls": b"a: !!python/object/apply:os.system ['touch owned']\n",
    "names": b"a: !!python/name:os.system\n",
    "binary tag": b"run: !!binary aGVsbG8=\n",
    "unknown tag": b"run: !mine x\n",
    "unclosed": b"depths: [1, 2\n",
    "tabs": b"speech:\n\tframes: 3\n",
    "two documents": b"run: a\n---\nrun: b\n",
    "unknown alias": b"run: *absent\n",
    "text": b"this is not a mapping\n",
    "list": b"- run\n- mine\n",
    "number": b"42\n",
    "zeros": b"\0" * 1_000,
    "control characters": b"run: \x01\x02\n",
    "latin-1": "run: größe\n".encode("latin-1"),
    "utf-16": "run: mine\n".encode("utf-16"),
    "gzip": b"\x1f\x8b\x08\x00" + bytes(range(256)),
    "zip": b"PK\x03\x04" + bytes(range(256)),
    "surrogates": b"run: \xed\xa0\x80\n",
}

CATALOGUE = {"catalogues": ["datasets.yaml", "own.yaml"], "datasets": ["mine"], "kernel_size": 2}
CATALOGUE |= {"overrides": {}}


def case(family: str, name: str, overlay: Any, **files: bytes) -> Case:
    """Return a case of an overlay as it is, or of one that is written down."""
    text = overlay if isinstance(overlay, bytes) else yaml.safe_dump(overlay).encode()
    named = {key.replace("__", "/").replace("_dot_", "."): text for key, text in files.items()}
    return Case(family, name, {"mine.yaml": text, **named})


def overlays(draw: random.Random) -> Iterator[Case]:
    for name, text in TEXTS.items():
        yield case("overlay: YAML", name, text)
    base = config.read_yaml(ROOT / "config.yaml")
    wrong = [{"oops": 1}, math.nan, [[[]]], "x{y}\n\0", -(10**40), {"a\nb": {"c": []}}]
    for path in draw.sample(sorted(places(base)), 60):
        value: Any = draw.choice(wrong)
        if path[-1] in ("high_freq", "learning_rates", "kernels_along"):
            value = "any"  # they take any number, or mappings with keys of their own
        for key in reversed(path):
            value = {key: value}
        yield case("overlay: values", ".".join(path), value)


def places(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield where the values of a config are."""
    for key, value in values.items():
        yield (*path, key)
        if isinstance(value, Mapping):
            yield from places(value, (*path, key))


def catalogues(draw: random.Random) -> Iterator[Case]:
    for name in draw.sample(sorted(TEXTS), 20):
        yield case("catalogue: YAML", name, CATALOGUE, own_dot_yaml=TEXTS[name])
    gaussian = {"reader": "gaussian", "scaling": "none", "options": {"n": 9, "d": 3, "seed": 1}}
    csv = {"reader": "csv", "scaling": "none", "options": {"labels": None}, "path": "x.csv"}
    file = {"name": "x/y.gz", "urls": ["https://example.org/y.gz"], "sha256": ["0" * 64]}
    idx = {"reader": "idx", "scaling": "none", "files": {"train_x": file, "train_y": file}}
    entries = {
        "absent": csv,
        "braces": csv | {"path": "{x}.csv"},
        "folder": csv | {"path": "."},
        "device": csv | {"path": "/dev/zero"},
        "nothing": csv | {"path": ""},
        "NUL": csv | {"path": "a\0b"},
        "no reader": {"scaling": "none"},
        "other reader": csv | {"reader": "pickle"},
        "reader that is a list": csv | {"reader": ["csv"]},
        "other scaling": csv | {"scaling": "log"},
        "no range": csv | {"scaling": "unit_interval"},
        "range of nan": csv | {"value_range": [math.nan, 1]},
        "range of infinity": csv | {"value_range": [-math.inf, 1]},
        "shape": csv | {"shape": [9, 0]},
        "huge shape": csv | {"shape": [10**30, 1]},
        "image": csv | {"image": [1, 2]},
        "homepage": csv | {"homepage": "javascript:alert(1)"},
        "checksum": csv | {"reader": "svhn", "options": {}, "sha256": "00"},
        "unknown key": csv | {"command": "rm -rf /"},
        "unknown option": csv | {"options": {"labels": None, "engine": "python"}},
        "many samples": gaussian | {"options": {"n": 10**15, "d": 3, "seed": 1}},
        "many features": gaussian | {"options": {"n": 9, "d": 10**15, "seed": 1}},
        "half a sample": gaussian | {"options": {"n": 9.5, "d": 3, "seed": 1}},
        "negative seed": gaussian | {"options": {"n": 9, "d": 3, "seed": -1}},
        "outside": idx | {"files": {"train_x": file | {"name": "../../etc/passwd"}}},
        "absolute": idx | {"files": {"train_x": file | {"name": "/etc/passwd"}}},
        "line break": idx | {"files": {"train_x": file | {"name": "x/y.gz\n"}}},
        "ftp": idx | {"files": {"train_x": file | {"urls": ["ftp://x/y"]}}},
        "short sum": idx | {"files": {"train_x": file | {"sha256": ["00"]}}},
        "no sum": idx | {"files": {"train_x": file | {"sha256": []}}},
        "entry that is a list": [csv],
        "entry that is null": None,
    }
    for name, entry in entries.items():
        yield case("catalogue: entries", name, CATALOGUE, own_dot_yaml=dumped({"mine": entry}))
    for name in ("a b", "Mine", "mine\n", "../mine", ""):
        yield case(
            "catalogue: entries", repr(name), CATALOGUE, own_dot_yaml=dumped({name: gaussian})
        )


def dumped(values: Any) -> bytes:
    return yaml.safe_dump(values).encode()


def papers(draw: random.Random) -> Iterator[Case]:
    for name in draw.sample(sorted(TEXTS), 12):
        yield case("paper", name, {"papers": ["own"]}, papers__own_dot_yaml=TEXTS[name])
    claim = {"name": "one", "place": "Eq. 1", "kind": "theory", "statement": "It is.", "target": 0}
    claim |= {"table": "conditioning", "quantity": "depth", "comparison": ">="}
    changes: dict[str, Any] = {
        "a call": {"quantity": "@pd.io.common.os.system('touch owned')"},
        "an attribute": {"quantity": "depth.__class__"},
        "deep brackets": {"quantity": "(" * 5_000 + "depth" + ")" * 5_000},
        "deep signs": {"quantity": "-" * 5_000 + "depth"},
        "no expression": {"where": "depth ="},
        "a list for a text": {"quantity": ["depth"]},
        "a table that is none": {"table": "passwords"},
        "joins that are a text": {"joins": "x"},
        "conditions that are a number": {"conditions": 1},
        "unknown key": {"command": "rm"},
    }
    for name, change in changes.items():
        content = {"title": "T", "citation": "C", "claims": [claim | change]}
        yield case("paper", name, {"papers": ["own"]}, papers__own_dot_yaml=dumped(content))
    for name, content in {"no claims": {"title": "T"}, "claims: 1": {"claims": 1}}.items():
        yield case("paper", name, {"papers": ["own"]}, papers__own_dot_yaml=dumped(content))
    yield case("paper", "outside", {"papers": ["../own"]})


def data(_draw: random.Random) -> Iterator[Case]:
    entry = {"reader": "csv", "scaling": "none", "options": {"labels": "y"}, "path": "x.csv"}
    rows = "a,b,y\n" + "1,2,0\n3,4,1\n" * 5
    texts: dict[str, bytes] = {
        "empty": b"",
        "header alone": b"a,b,y\n",
        "no header": b"1,2,3\n4,5,6\n",
        "semicolons": rows.replace(",", ";").encode(),
        "tabs": rows.replace(",", "\t").encode(),
        "latin-1": rows.replace("a", "ä").encode("latin-1"),
        "latin-1 below": (rows + "ä,1,1\n").encode("latin-1"),
        "utf-16": rows.encode("utf-16"),
        "ragged": (rows + "1,2\n").encode(),
        "gap": (rows + "1,,1\n").encode(),
        "infinity": (rows + "1,inf,1\n").encode(),
        "text": (rows + "1,two,1\n").encode(),
        "other labels": rows.replace("y", "z").encode(),
        "labels that are fractions": (rows + "1,2,0.5\n").encode(),
        "twice": rows.replace("b", "a", 1).encode(),
        "index": rows.replace("a", "", 1).encode(),
        "binary": bytes(range(256)) * 9,
        "gzip bomb": gzipped(200_000_000),
        "damaged gzip": gzipped(1000)[:20],
        "one row": b"a,b,y\n1,2,0\n",
    }
    overlay = CATALOGUE | {"datasets": ["mine"]}
    for name, text in texts.items():
        files = {"own_dot_yaml": dumped({"mine": entry}), "x_dot_csv": text}
        yield case("data", name, overlay, **files)
    for reader in ("npz", "parquet", "cifar10"):
        options = {"labels": None} if reader != "cifar10" else {}
        given = entry | {"reader": reader, "options": options}
        files = {"own_dot_yaml": dumped({"mine": given}), "x_dot_csv": rows.encode()}
        yield case("data", f"CSV as {reader}", overlay, **files)


def gzipped(count: int) -> bytes:
    import gzip

    return gzip.compress(b"a,b,y\n" + b"0,0,0\n" * (count // 6), compresslevel=9)


HEAD = b"import torch\nfrom ntk_conditioning.networks.activations import Activation, register\n"


def activation_files(_draw: random.Random) -> Iterator[Case]:
    imports = {
        "exit 0": "import os; os._exit(0)",
        "exit 3": "import sys; sys.exit(3)",
        "exit at the end": "import atexit, os; atexit.register(os._exit, 0)",
        "hang": "import time; time.sleep(10**6)",
        "spin": "while True: pass",
        "wait": "input()",
        "abort": "import os; os.abort()",
        "stop": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "parent": "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
        "crash": "import ctypes; ctypes.string_at(0)",
        "interrupt": "raise KeyboardInterrupt",
        "print": "print('hello')",
        "print without end": "while True: print('hello' * 1000)",
        "lines": "raise ValueError('a\\n' * 1000)",
        "recursion": "def f(): f()\nf()",
        "memory": "x = bytearray(b'1') * 10**11",
        "memory by bits": "x = []\nwhile True: x.append('1' * 10**6)",
        "syntax": "def f(:",
        "latin-1": "é = 1",
        "no module": "import no_such_module",
        "nothing": "x = 1",
        "not an activation": "register('relu')",
        "name that is taken": "register(Activation('relu', torch.tanh, torch.tanh))",
        "name that is a path": "register(Activation('../x', torch.tanh, torch.tanh))",
    }
    for name, text in imports.items():
        encoded = text.encode("latin-1" if name == "latin-1" else "utf-8")
        yield case("activation: file", name, used(), own_dot_py=HEAD + encoded + b"\n")
    slope = "lambda z: 1 - z.tanh() ** 2"
    step = "lambda z: (z > 0.7).to(z.dtype)"
    made = {
        "wrong derivative": ("torch.tanh", "torch.tanh"),
        "derivative of half of it": (
            "torch.tanh",
            "lambda z: torch.where(z > 1, 0, 1 - z.tanh()**2)",
        ),
        "zero": ("torch.zeros_like", "torch.zeros_like"),
        "constant": ("torch.ones_like", "torch.zeros_like"),
        "nan": ("lambda z: z * float('nan')", slope),
        "nan below": ("torch.sqrt", slope),
        "infinity": ("lambda z: z.exp().exp().exp()", slope),
        "random": ("torch.rand_like", slope),
        "sum": ("torch.sum", slope),
        "mean": ("lambda z: z - z.mean()", slope),
        "in place": ("lambda z: z.clamp_(min=0)", "lambda z: (z > 0).to(z.dtype)"),
        "float": ("lambda z: z.float()", slope),
        "double": ("lambda z: z.double()", slope),
        "NumPy": ("lambda z: z.numpy()", slope),
        "nothing": ("lambda z: None", slope),
        "hang": ("lambda z: exec('while True: pass')", slope),
        "exit": ("lambda z: exec('import os; os._exit(0)')", slope),
        "text": ("'tanh'", slope),
        "undeclared kink": ("lambda z: (z - 0.7).clamp(min=0)", step),
        "declared kink": (
            "lambda z: z.tanh() + (z - 0.7).clamp(min=0)",
            f"lambda z: 1 - z.tanh() ** 2 + ({step})(z), kinks=(0.7,)",
        ),
        "steep": ("lambda z: (3000*z).tanh()", "lambda z: 3000 * (1 - (3000*z).tanh() ** 2)"),
        "no homogeneous one": ("torch.tanh", f"{slope}, homogeneous=True"),
        "no leaky ReLU": ("torch.tanh", f"{slope}, negative_slope=0.1"),
        "other gain": ("torch.tanh", f"{slope}, exact_gain=3.0"),
        "kinks that are a text": ("torch.tanh", f"{slope}, kinks='no'"),
    }
    for name, (function, derivative) in made.items():
        text = f"register(Activation('mine', {function}, {derivative}))\n".encode()
        yield case("activation: function", name, used(), own_dot_py=HEAD + text)
    for name, path in {"absent": "no.py", "folder": ".", "braces": "{x}.py"}.items():
        yield case("activation: file", name, {"activation_files": [path]})


def used() -> dict[str, Any]:
    return {"activation_files": ["own.py"], "activations": ["relu", "mine"]}


def network_files(_draw: random.Random) -> Iterator[Case]:
    head = f"def build({'*, depth, width, activation, shape, outputs, generator'}):\n    "
    linear = "torch.nn.Linear(shape[0], outputs)"
    seed = "torch.manual_seed(generator.initial_seed()); "
    texts = {
        "exit": "import os; os._exit(0)",
        "hang": "while True: pass",
        "print": "print(1)",
        "nothing": "x = 1",
        "other arguments": "def build(depth): pass",
        "exit when it is called": f"{head}import os; os._exit(0)",
        "hang when it is called": f"{head}while True: pass",
        "exception": f"{head}1 / 0",
        "None": f"{head}return None",
        "text": f"{head}return 'net'",
        "no weights": f"{head}return torch.nn.Flatten()",
        "always the same": f"{head}torch.manual_seed(0); return {linear}",
        "never the same": f"{head}return {linear}",
        "dropout": f"{head}{seed}return torch.nn.Sequential({linear}, torch.nn.Dropout())",
        "other outputs": f"{head}{seed}return torch.nn.Linear(shape[0], 77)",
        "fails": f"{head}{seed}return torch.nn.Linear(77, outputs)",
    }
    training = {"fig3": {"models": ["mine"], "datasets": ["librispeech_sample"]}}
    overlay = {"models": {"mine": {"file": "own.py"}}, "training": training}
    for name, text in texts.items():
        yield case("network", name, overlay, own_dot_py=HEAD + text.encode() + b"\n")
    for name, function in {"no name": "a b", "dunder call": "x(); y"}.items():
        models = {"mine": {"file": "own.py", "function": function}}
        yield case("network", name, {"models": models}, own_dot_py=b"")


FAMILIES = (overlays, catalogues, papers, data, activation_files, network_files)


def cases(seed: int = 1) -> list[Case]:
    """Return all cases, the same for a seed."""
    draw = random.Random(seed)
    return [each for family in FAMILIES for each in family(draw)]


# --- planning -------------------------------------------------------------------------------------


def plan(folder: Path) -> list[str]:
    """Return what somebody reads who plans with mine.yaml in a folder, as `make` does."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.chdir(folder):
        if config.main(["mine.yaml"]):
            return told.getvalue().splitlines()
        base, overlay = (config.read_yaml(each) for each in ("config.yaml", "mine.yaml"))
        layers = [config.Layer("config.yaml", base), config.Layer("mine.yaml", overlay)]
        merged = json.loads(json.dumps(base))
        update_config(merged, overlay)
        try:
            made = Plan.from_config(merged, layers=layers, source=ROOT)
        except (ConfigError, ValueError) as error:  # as in rules/common.smk
            return str(error).splitlines()
    lines = [line for lines in made.mistakes.values() for line in lines]
    return list(dict.fromkeys(lines))


def prepare(hostile: Case, folder: Path) -> None:
    """Write a case's files beside those that a checkout has."""
    (folder / "papers").mkdir()
    for path in [*ROOT.glob("*.yaml"), *ROOT.glob("papers/*.yaml"), ROOT / "resources"]:
        (folder / path.relative_to(ROOT)).symlink_to(path)
    for file, content in hostile.files.items():
        (folder / file).write_bytes(content)


def attempt(hostile: Case) -> Outcome:
    """Return the outcome of planning with a case, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(hostile, folder)
        answer, begin = folder / "answer.json", time.monotonic()
        if (child := os.fork()) == 0:
            _child(folder, answer)
        _, status, usage = os.wait4(child, 0)
        seconds = time.monotonic() - begin
        made = answer.exists() and json.loads(answer.read_text())
        lines, megabytes = made or ([f"status {status}"], usage.ru_maxrss / 1024)
        crashed = not made or (folder / "owned").exists() or lines[:1] == ["Traceback"]
        return Outcome(lines, crashed, seconds, megabytes)


def _child(folder: Path, answer: Path) -> None:
    try:
        lines = plan(folder)
    except BaseException:
        lines = ["Traceback", *traceback.format_exc().splitlines()[-3:]]
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    most = max(resource.getrusage(each).ru_maxrss for each in who)
    answer.write_text(json.dumps([lines, most / 1024]))
    os._exit(0)


def main() -> int:
    outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
    verdicts = ("refused", "badly told", "accepted", "crashed")
    wrong = 0
    families = tuple(sys.argv[1:]) or ("",)
    for each in cases():
        if not each.family.startswith(families):
            continue
        outcome = attempt(each)
        outcomes[each.family].append(outcome)
        over = outcome.seconds > SECONDS or outcome.megabytes > MEGABYTES
        if outcome.verdict != "refused" or over:
            took = f"{outcome.seconds:.1f} s, {outcome.megabytes:.0f} MB"
            lines = " | ".join(line[:300] for line in outcome.lines[:4])
            print(f"{each.family}, {each.name}: {outcome.verdict} ({took}): {lines}", flush=True)
            wrong += outcome.verdict != "refused" or over
    print("| family | tried", *verdicts, "longest", "most memory |", sep=" | ")
    for family, made in outcomes.items():
        counts = [sum(each.verdict == verdict for each in made) for verdict in verdicts]
        seconds, megabytes = max(e.seconds for e in made), max(e.megabytes for e in made)
        print(
            f"| {family} | {len(made)}",
            *counts,
            f"{seconds:.1f} s",
            f"{megabytes:.0f} MB |",
            sep=" | ",
        )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
