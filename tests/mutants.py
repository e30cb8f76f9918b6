"""Plant small bugs, one at a time, and see that tests catch them: `python -m tests.mutants [NAME]`.

Each is planted in one temporary copy of the checkout, where the tests that should catch it must
fail, and must pass without it. All together are listed in tests/mutants.md.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests/mutants.md"
HEADING = """\
# Planted bugs

Small mistakes that a programmer could make, and the tests that catch them; made by
`python -m tests.mutants`, which plants them one at a time in a copy of the checkout.
"""
# Ten of the numerics, ten of the workflow, ten of bundle and data. Three lines each: name, file and
# tests, what is replaced by what, and what a user would see.
TABLE = """\
fan_in src/ntk_conditioning/networks/mlp.py tests/ntk_conditioning/networks/test_mlp.py
  math.sqrt(self.weights[layer - 1].shape[0]) => math.sqrt(self.weights[layer - 1].shape[1])
  finite networks and their kernels are scaled by the inputs of a layer instead of its width
opposite_pairs src/ntk_conditioning/kernels/infinite.py tests/ntk_conditioning/kernels/test_infinite.py
  opposite=not monotone => opposite=monotone
  at infinite width the smallest angle misses samples that are nearly opposite, for tanh, say
leaky_bend src/ntk_conditioning/duals/closed_forms.py tests/ntk_conditioning/duals/test_duals.py
  / (1 + negative_slope**2) => / (1 + negative_slope) ** 2
  kernels of leaky ReLUs are wrong at infinite width, that of ReLU is right
float32_floor src/ntk_conditioning/spectra/conditioning.py tests/ntk_conditioning/spectra/test_conditioning.py
  n, eps = len(k), float(np.finfo(k.dtype).eps) => n, eps = len(k), EPS
  condition numbers of float32 kernels are printed that are only noise
pivots src/ntk_conditioning/spectra/factorisations.py tests/ntk_conditioning/spectra/test_extremal_eigenvalues.py
  np.count_nonzero(~single) // 2 => np.count_nonzero(~single)
  large kernels of deficient rank get a rank that is too high
distinct_rows src/ntk_conditioning/angles/min_angle.py tests/ntk_conditioning/angles/test_min_angle.py
  i, j = first[pair].tolist() => i, j = pair
  without duplicates the smallest angle names rows of the reduced dataset
last_batch src/ntk_conditioning/training/mlp_ensemble.py tests/ntk_conditioning/training/test_mlp_ensemble.py
  (-rates / x.shape[-2]) => (-rates / self._batch)
  the last, smaller batch of every epoch moves the weights too little
descent_for_ascent src/ntk_conditioning/transition/taylor.py tests/ntk_conditioning/transition
  * (1.0 if term >= 0 else -1.0) =>
  the largest quadratic term in a ball is far too small wherever it is negative
bound_too_early src/ntk_conditioning/theory/agarwal2021deep.py tests/ntk_conditioning/theory
  layers >= 4 * first => layers >= 2 * first
  Corollary 10 is compared with kernels at depths of which it says nothing
lucky_seed src/ntk_conditioning/tables/learning_rates.py tests/ntk_conditioning/tables
  float(np.mean(values)) for => float(np.min(values)) for
  the best learning rate is that of the luckiest seed, though others diverge at it
from_package_import src/ntk_workflow/provenance/digests.py tests/ntk_workflow/provenance
  dict.fromkeys((node.module, *parts)) => dict.fromkeys((node.module,))
  an edit of a module that is imported by `from package import module` reruns nothing
cell_without_data src/ntk_workflow/checkpoints/cells.py tests/scripts/test_rows.py
  "activation": cell.activation, "data": self._digest_of(cell.data)} => "activation": cell.activation}
  a row is put together from cells of other samples
unsorted_options src/ntk_workflow/plan/run.py tests/ntk_workflow/test_plan.py
  for key in sorted(values) for word => for key in values for word
  keys of a study in another order rerun all of its rows
wrong_sizes rules/training.smk tests/ntk_workflow/test_estimate.py
  **sizes("train_network") => **sizes("compute_training_kernel")
  trainings on a cluster ask for the time and memory of another rule, and are killed
exact_fit src/ntk_workflow/checks.py tests/ntk_workflow/test_plan.py
  blocks * size > n => blocks * size >= n
  a config whose blocks hold all samples is refused
all_blocks src/ntk_workflow/resources.py tests/ntk_workflow/test_resources.py
  max(1, n // size) if config["blocks"] == "all" => 1 if config["blocks"] == "all"
  a job of all blocks asks for the time of one, and is killed
empty_condition src/ntk_workflow/claims/checking.py tests/ntk_workflow/claims
  if meets.any() and good[meets].all() => if good[meets].all()
  a claim that fails holds under a condition that no case meets
resumed_job src/ntk_workflow/estimate.py tests/ntk_workflow/test_estimate.py
  ": kept\\n" in log or "going on from a checkpoint" in log => ": kept\\n" in log
  trainings that were resumed count as fast ones, and estimates are too low
stale_notebook scripts/run_notebook.py tests/notebooks/test_run_notebook.py
  for path in (args.output, *args.outputs) => for path in (*args.outputs,)
  the executed notebook of an earlier run stays after a failure
role_of_blocks src/ntk_workflow/rows/blocks.py tests/scripts/test_rows.py
  generator(seed, "blocks") => generator(seed, "init")
  the blocks of samples are drawn by the numbers that are a network's first weights
unsorted_archive src/ntk_workflow/bundle/archive.py tests/ntk_workflow/bundle
  dict(sorted((path => dict(list((path
  bundles of one run differ from machine to machine, and are refused elsewhere
last_end src/ntk_workflow/bundle/jobs.py tests/ntk_workflow/bundle
  max(job["end"] for job in timed) => min(job["end"] for job in timed)
  a bundle says that its run ended with the first job
unsigned_pixels src/ntk_workflow/bundle/rerender.py tests/scripts/test_bundle_run.py
  np.asarray(picture, dtype=np.int16) => np.asarray(picture)
  figures that come out a shade lighter are refused
only_sizes src/ntk_workflow/bundle/bag.py tests/scripts/test_verify_bundle.py
  bag.validate() => bag.validate(fast=True)
  files of a bundle may be damaged as long as their sizes are right
transposed src/ntk_conditioning/data/readers/svhn.py tests/ntk_conditioning/data/test_readers_svhn.py
  np.moveaxis(arrays["X"], 3, 0) => arrays["X"].transpose(3, 1, 0, 2)
  SVHN's digits lie on their sides
order_of_batches src/ntk_conditioning/data/readers/cifar.py tests/ntk_conditioning/data/test_readers_cifar.py
  b"".join(batches[name] for name in BATCHES[split]) => b"".join(batches.values())
  CIFAR-10's samples are in another order if the archive's members are
first_frame src/ntk_conditioning/data/speech/draw.py tests/ntk_conditioning/data/speech
  np.searchsorted(end, chosen, side="right") => np.searchsorted(end, chosen)
  LibriSpeech: the first frame of an utterance is looked for behind the end of the one before
left_part src/ntk_workflow/downloads.py tests/ntk_workflow/test_downloads.py
  os.replace(download.part, target) => shutil.copyfile(download.part, target)
  a download takes its place twice, and a kill leaves half a file under the final name
stream_of_draws src/ntk_conditioning/data/subsets.py tests/ntk_conditioning/data/test_datasets.py
  seeds.generator(seed, "data").spawn(1) => [seeds.generator(seed, "data")]
  which Gaussian samples a seed draws depends on their values
equal_settings src/ntk_workflow/comparison/differences.py tests/scripts/test_compare_runs.py tests/ntk_workflow/comparison
  repr(change.a) != repr(change.b) => change.a != change.b
  a comparison of runs does not tell `true` from 1
"""  # noqa: E501


@dataclass(frozen=True)
class Mutant:
    """A bug: ``old``, which ``file`` has once, becomes ``new``; ``tests`` should fail."""

    name: str
    file: str
    tests: tuple[str, ...]
    old: str
    new: str
    effect: str

    def planted(self, folder: Path) -> str:
        """Return the file's text with the bug."""
        text = (folder / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise SystemExit(f"{self.name}: {self.file} has {self.old!r} {count} times, not once")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Return the bugs of the table."""
    lines = [line.strip() for line in TABLE.splitlines()]
    read = []
    for head, change, effect in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        name, file, *tests = head.split()
        old, new = (part.strip() for part in change.split("=>"))
        read.append(Mutant(name, file, tuple(tests), old, new, effect))
    return read


def failure(folder: Path, tests: Sequence[str]) -> str | None:
    """Return the first of the tests that fails, without its parameters, or None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    # else Python could take the bytecode of a planted bug for that of the original
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?)(?:\[|\s|$)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or not failed:
        raise SystemExit(f"{' '.join(tests)} cannot run:\n{done.stdout[-3000:]}{done.stderr}")
    return failed[1]


def copied(folder: Path) -> Path:
    """Return the folder with a copy of the checkout's tracked files."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in listed.split("\0")[:-1]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def page(caught: Sequence[tuple[Mutant, str | None]]) -> str:
    """Return the list of all bugs in Markdown."""
    rows = [("bug", "file", "what a user would see", "caught by"), ("---",) * 4]
    for mutant, test in caught:
        change = f"`{mutant.old}` → " + (f"`{mutant.new}`" if mutant.new else "nothing")
        by = f"`{test}`" if test else "**nothing**"
        rows.append((f"{mutant.name}: {change}", f"`{mutant.file}`", mutant.effect, by))
    lines = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return "\n".join([HEADING, *lines, ""])


def main(argv: Sequence[str] | None = None) -> int:
    known = {mutant.name: mutant for mutant in mutants()}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bugs; all by default")
    names = parser.parse_args(argv).names
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no bug is called {unknown[0]}; they are {', '.join(known)}")
    chosen = [known[name] for name in names or known]
    results = []
    with tempfile.TemporaryDirectory(prefix="ntk-mutants-") as scratch:
        folder = copied(Path(scratch))
        texts = {mutant: mutant.planted(folder) for mutant in chosen}  # all are checked first
        for tests in dict.fromkeys(mutant.tests for mutant in chosen):
            if failed := failure(folder, tests):
                raise SystemExit(f"{failed} fails without any bug")
            for mutant in (each for each in chosen if each.tests == tests):
                path = folder / mutant.file
                original = path.read_bytes()
                path.write_text(texts[mutant], encoding="utf-8")
                test = failure(folder, tests)
                path.write_bytes(original)
                results.append((mutant, test))
                print(f"{mutant.name}: {f'caught by {test}' if test else 'NOT CAUGHT'}", flush=True)
    results.sort(key=lambda result: chosen.index(result[0]))
    if not names:
        PAGE.write_text(page(results), encoding="utf-8")
    return 0 if all(test for _, test in results) else 1


if __name__ == "__main__":
    sys.exit(main())
