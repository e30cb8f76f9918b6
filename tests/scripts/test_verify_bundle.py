"""A consistent bundle is accepted, all others are refused in one line that says what is wrong."""

import io
import json
import math
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
import verify_bundle

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.spectra.conditioning import conditioning_from_factor, spectra_row
from ntk_conditioning.tables import TABLES
from ntk_workflow.bundle import BundleError, archive, bag, checks, signatures, verification
from ntk_workflow.bundle.cells import require_cells
from ntk_workflow.bundle.derivations import derivations, problems_of, quiet
from ntk_workflow.bundle.joins import require_joins
from ntk_workflow.bundle.recorded import recorded_plan
from ntk_workflow.bundle.relations import require_relations
from tests import rows
from tests.attack.forgeries import raw
from tests.bundles import (
    FIGURES,
    JOBS,
    RECORDS,
    RESULTS,
    RUN,
    altered,
    describe,
    rebag,
    seal,
    write_bundle,
)
from tests.forgeries import forge_table
from tests.support import disk

ANGLES_FILE = f"data/{RESULTS}/tables/angles.parquet"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    return write_bundle(folder / f"{RUN}.zip", folder / "checkout")


@pytest.fixture(scope="module")
def bag_of_few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of three files, of which jobs tell, for damages that are seen before its content."""
    scratch = tmp_path_factory.mktemp("few")
    payload = scratch / RUN
    cells = ({"seed": seed, "min_angle": seed / 7} for seed in range(40))
    table = rows.write(payload / ANGLES_FILE.removeprefix("data/"), "angles", *cells)
    (payload / JOBS).parent.mkdir(parents=True)
    files = {table.relative_to(payload).as_posix(): {"sha256": sha256(table)}}
    (payload / JOBS).write_text(json.dumps({"files": files, "jobs": []}))
    (payload / "README.md").write_text("# A title\n")
    bag.make(payload, {"Bagging-Date": "2026-01-02"})
    archive.pack(payload, scratch / "few.zip")
    return scratch / "few.zip"


@pytest.fixture
def refused(refusal, tmp_path, monkeypatch):
    """Return a function that returns the one line with which a bundle is refused."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a file beside it is noticed
    return lambda path: refusal(verify_bundle, [path]).removeprefix(f"{path}: ")


def of_bytes(change):
    """Damage the archive's bytes."""
    return lambda bundle, scratch, rng: written(scratch, change(bundle.read_bytes(), rng))


def of_files(change, **again):
    """Change the unpacked bag, and make it anew if asked for."""
    return lambda path, scratch, rng: altered(path, scratch, lambda bag: change(bag, rng), **again)


def of_members(name, kind=stat.S_IFREG, size=4):
    """Append a member to the archive; a large one is compressed."""

    def damage(bundle, scratch, rng):
        target = written(scratch, bundle.read_bytes())
        with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(target, "a") as opened:
            info = member(name(opened.namelist(), rng), kind)  # whose name may be there already
            compression = zipfile.ZIP_STORED if size < 99 else zipfile.ZIP_DEFLATED
            opened.writestr(info, bytes(size), compress_type=compression)
        return target

    return damage


def written(scratch: Path, content: bytes) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    target = scratch / "damaged.zip"
    target.write_bytes(content)
    return target


def member(name: str, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, archive.EARLIEST)
    info.create_system, info.external_attr = 3, (kind | 0o644) << 16
    return info


def flip_bit(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def any_file(folder, rng):
    return rng.choice(list(archive.files_by_name(folder / "data").values()))


def flip_bit_of_file(folder, rng):
    path = any_file(folder, rng)
    path.write_bytes(flip_bit(path.read_bytes(), rng))


def change_number(folder, rng):
    """Add one to a number of a table, keeping it a sound table."""
    cells = tables.read(folder / ANGLES_FILE, "angles").to_pylist()
    rng.choice(cells)["min_angle"] += 1.0
    tables.write(folder / ANGLES_FILE, "angles", tables.from_rows("angles", cells))


def extra_file(*places):
    return lambda folder, rng: (folder / rng.choice(places)).write_text("more")


def other_encoding(folder, _rng):
    path = folder / "bagit.txt"
    path.write_text(path.read_text().replace("UTF-8", "rot13"))


def overlapping_bomb(_content: bytes, rng: random.Random) -> bytes:
    """Let many entries of the archive's list name one and the same stored member."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        opened.writestr(member(f"{RUN}/data/a"), rng.randbytes(2000))
        first = opened.infolist()[0]
        for number in range(rng.randrange(3, 50)):
            again = member(f"{RUN}/data/b{number:03d}")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.file_size = again.compress_size = first.file_size
            opened.filelist.append(again)
            opened.NameToInfo[again.filename] = again
    return stream.getvalue()


OUTSIDE = ["../evil", f"{RUN}/../../evil", "/tmp/evil", f"{RUN}/data/../../../evil", "..\\evil"]
EXTRA = ("data/more.txt", f"data/results/{RUN}/more.csv", "more.txt", "fetch.txt")
# A bit of an archive may lie in a name, a size or a kind of its list of members: any word will do.
ANY = "damaged|missing|extra|climbs|link|plain file|compressed|zip bomb|name that|twice|at once"
DAMAGES = [
    (of_bytes(flip_bit), ANY),
    (of_bytes(lambda content, rng: content[: rng.randrange(len(content))]), "damaged, cut off"),
    (of_bytes(lambda content, rng: content + rng.randbytes(rng.randrange(1, 99))), "damaged"),
    (of_files(flip_bit_of_file), "damaged"),
    (of_files(lambda folder, rng: any_file(folder, rng).unlink()), "missing"),
    (of_files(lambda folder, rng: rng.choice(sorted(folder.glob("*.txt"))).unlink()), "missing"),
    (of_files(extra_file(*EXTRA)), "extra file"),
    (of_files(extra_file(f"data/{RESULTS}/tables/more.parquet"), bagged=True), "an extra file"),
    (of_files(change_number), "damaged"),
    (of_files(change_number, bagged=True), "changed, it is not the file that its job has"),
    (of_files(other_encoding), "bagit.txt: declares another version or encoding"),
    (of_members(lambda _, rng: rng.choice(OUTSIDE)), "climbs out"),
    (of_members(lambda *_: f"{RUN}/data/link", kind=stat.S_IFLNK), "is a link"),
    (of_members(lambda names, rng: rng.choice(names)), "stands in the archive twice"),
    (of_members(lambda names, rng: rng.choice(names).upper()), "stands in the archive twice"),
    (of_members(lambda *_: f"{RUN}/data/0", size=10**7), "zip bomb"),
    (of_bytes(overlapping_bomb), "a zip bomb"),
]


def test_a_consistent_bundle_is_accepted(bundle: Path, tmp_path: Path, capsys):
    assert verify_bundle.main([str(bundle)]) == 0
    messages = capsys.readouterr().err
    assert "14 tables, 2 figures, 25 files known to jobs, 11 made again from others" in messages
    assert "consistent; not signed: whoever holds it could have changed it; sha256" in messages
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(tmp_path)
    assert verify_bundle.main([str(tmp_path / RUN)]) == 0
    assert (
        "files of its source that are not this checkout's: 1, such as papers/tiny.yaml" in messages
    )


def test_what_would_take_all_memory_is_refused_before_it_is_read(
    bundle: Path, tmp_path: Path, capsys, monkeypatch
):
    monkeypatch.setattr(checks, "LIMIT", (0, 0))
    assert verify_bundle.main([str(bundle)]) == 2
    assert re.search(r"\.parquet: \d+ rows in \d+ bytes: a bomb", capsys.readouterr().err)
    monkeypatch.setattr(checks, "MOST_ROWS", 3)
    assert verify_bundle.main([str(bundle)]) == 2
    assert "ask for 8 files of rows, and a run has at most 3" in capsys.readouterr().err
    content = bytearray(bundle.read_bytes())
    size = len(content) - 10  # of the archive's list
    content[size : size + 4] = (10**8).to_bytes(4, "little")
    (tmp_path / "many.zip").write_bytes(content)
    assert verify_bundle.main([str(tmp_path / "many.zip")]) == 2
    assert "195312 files in it, and a bundle has at most 20000" in capsys.readouterr().err


def test_verification_needs_no_package_but_those_of_its_lock(bundle: Path):
    root = Path(__file__).parents[2]
    lock = (root / "envs/verify.lock").read_text(encoding="utf-8")
    locked = {*re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE), "ntk-conditioning"}
    by_module = packages_distributions().items()
    absent = [
        name
        for name, of in by_module
        if not locked & {re.sub("[._]", "-", each.lower()) for each in of}
    ]
    assert "torch" in absent
    program = f"import sys; sys.modules.update(dict.fromkeys({absent}))\n"
    program += (
        f"import compare_runs, verify_bundle; sys.exit(verify_bundle.main([{str(bundle)!r}]))"
    )
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root / 'scripts'}"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_bundle_of_very_many_files_is_refused_before_they_are_read(tmp_path: Path, refused):
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as opened:
        for number in range(archive.MOST + 1):
            opened.writestr(member(f"{RUN}/data/{number}"), b"")
    assert "20001 files in it, and a bundle has at most 20000" in refused(tmp_path / "many.zip")


def test_bundles_damaged_at_random_are_refused_with_the_right_word(bag_of_few, tmp_path, refused):
    rng = random.Random(0)
    for number in range(3 * len(DAMAGES)):
        damage, word = DAMAGES[number % len(DAMAGES)]
        line = refused(damage(bag_of_few, tmp_path / "outer" / f"{number}", rng))
        assert re.search(word, line), f"{number}: not {word}: {line}"


def test_a_full_disk_is_not_called_a_damaged_bundle(bag_of_few, refused, tmp_path):
    with disk.full_from(1000):
        line = refused(bag_of_few)
    assert line.startswith(f"cannot write {tmp_path}/")
    assert line.endswith(": File too large; make room and run again")


def test_every_bit_of_what_no_checksum_covers_is_looked_at(bag_of_few, tmp_path: Path, refused):
    """Times, permissions and versions of members are not part of their content."""
    content, lines = bag_of_few.read_bytes(), []
    start, end = content.index(b"PK\x01\x02"), len(content)
    for byte in [*range(4, 30), *range(start, start + 46), *range(end - 22, end)]:
        changed = bytearray(content)
        changed[byte] ^= 1
        lines.append(refused(written(tmp_path, bytes(changed))))
    assert all(lines)
    assert any("damaged, or packed by another program" in line for line in lines)


def test_a_number_changed_with_its_checksums(bundle: Path, tmp_path: Path, refused):
    def change(folder):
        table, jobs = folder / ANGLES_FILE, folder / "data" / JOBS
        before = sha256(table)
        change_number(folder, random.Random(0))
        jobs.write_text(jobs.read_text().replace(before, sha256(table)))

    line = refused(altered(bundle, tmp_path / "crate", change, bagged=True))
    assert "changed, its sha256 is not the one in the RO-Crate" in line


ANOTHER = {"table": "angles", "keys": "n"}
UNDECLARED = {
    "not a angles table of this version": lambda data: data.drop_columns(["min_angle"]),
    "in the order": lambda data: data.take(pc.sort_indices(data, [("seed", "descending")])),
    "rows repeat the key": lambda data: pa.concat_tables([data, data.slice(0, 1)]),
    "of another version": lambda data: data.replace_schema_metadata(ANOTHER),
    "no table that": lambda data: data.replace_schema_metadata({"table": "unknown"}),
}


@pytest.mark.parametrize("word", UNDECLARED)
def test_tables_that_are_not_as_declared(bundle: Path, tmp_path: Path, refused, word):
    def rewrite(folder):
        path = folder / ANGLES_FILE
        pa.parquet.write_table(UNDECLARED[word](tables.read(path, "angles")), path)

    line = refused(altered(bundle, tmp_path, rewrite, bagged=True, described=True))
    assert f"{RUN}/tables/angles.parquet: " in line
    assert word in line


def edit(name, change):
    """Change a file of the payload, given its text."""

    def forge(payload):
        path = payload / name
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")

    return forge


def edit_json(name, change):
    """Change a JSON file of the payload, given its content."""

    def forge(payload):
        content = json.loads((payload / name).read_text())
        change(content)
        (payload / name).write_text(json.dumps(content, indent=1) + "\n")

    return forge


def edit_table(name, column, change, which=0):
    """Change a number of a table of the run, in the first row that has one."""

    def forge(payload):
        path = payload / f"{RESULTS}/tables/{name}.parquet"
        table = TABLES[name.split("/")[0]]
        cells = tables.read(path, table).to_pylist()
        [cell for cell in cells if cell[column] is not None][which][column] = change
        tables.write(path, table, tables.from_rows(table, cells))

    return forge


def shorten(name):
    """Remove the last row of a table of the run."""

    def forge(payload):
        path = payload / f"{RESULTS}/tables/{name}.parquet"
        table = TABLES[name.split("/")[0]]
        tables.write(path, table, tables.read(path, table)[:-1])

    return forge


def another_gram(payload):
    """Give a Gram matrix, the kernel of depth 0, another spectrum that is consistent in itself."""
    path = payload / f"{RESULTS}/tables/spectra.parquet"
    cells = tables.read(path, "spectra").to_pylist()
    cell = next(each for each in cells if each["depth"] == 0 and each["eigenvalues"])
    factor = np.zeros((cell["n"], cell["d"]))
    np.fill_diagonal(factor, 1.01 * np.sqrt(cell["eigenvalues"]))
    cell.update(spectra_row(conditioning_from_factor(factor), eigenvalues=True))
    tables.write(path, "spectra", tables.from_rows("spectra", cells))


def another_rule(record):
    """Let the claims be made by a job of another rule, with its code."""
    of = {job["rule"]: job for job in record["jobs"]}
    of["check_claims"] |= {key: of["render_explorer"][key] for key in ("rule", "code")}


def swap(one, other):
    def forge(payload):
        a, b = payload / one, payload / other
        a_bytes = a.read_bytes()
        a.write_bytes(b.read_bytes())
        b.write_bytes(a_bytes)

    return forge


def remove(*names):
    def forge(payload):
        for name in names:
            (payload / name).unlink()

    return forge


def write(name, content):
    return lambda payload: (payload / name).write_bytes(content)


def entity(name, **facts):
    """Change what the crate says of something, after its checksums were made."""

    def change(metadata):
        next(each for each in metadata["@graph"] if each["@id"] == name).update(facts)

    return edit_json("ro-crate-metadata.json", change)


def first_cell(notebook):
    cell = next(each for each in notebook["cells"] if each["cell_type"] == "code")
    cell["source"] = ["import os"]


FIGURE = f"{RESULTS}/figures/{FIGURES[1]}"
NOTEBOOK = f"{RESULTS}/notebooks/{FIGURES[1]}.ipynb"
OTHER = f"{RESULTS}/notebooks/{FIGURES[0]}.ipynb"
SCRIPT = b"%PDF-1.4\n1 0 obj\n<< /OpenAction << /S /J#61vaScript >> >>\nendobj\n"
#: What is forged with all checksums made anew, and the two sides that the refusal names.
FORGERIES = {
    "lambda_max": (edit_table("spectra", "lambda_max", 99.0), "lambda_max is 99.0, and .* give"),
    "kappa": (edit_table("spectra", "kappa", 1.5), "kappa is 1.5, and its .*eigenvalues.* give"),
    "eigenvalue": (edit_table("spectra", "eigenvalues", [3.0] * 6), "lambda_max is .* eigenvalues"),
    "not a number": (edit_table("angles", "min_angle", math.nan), "min_angle is NaN in a row"),
    "Gram matrix": (
        another_gram,
        "one Gram matrix differs in lambda_max between kernel empirical_ntk",
    ),
    "kept eigenvalues": (
        edit(
            f"{RECORDS}/config.yaml",
            lambda t: t.replace("\neigenvalues: first", "\neigenvalues: none"),
        ),
        "has eigenvalues, against eigenvalues none and",
    ),
    "mean kappa": (
        edit_table("conditioning", "kappa_mean", 2.0),
        "conditioning.parquet: .*spectra.parquet give kappa_mean .*, where it has 2.0",
    ),
    "verdict": (edit_table("claims", "verdict", "fails"), "claims.parquet: .* give verdict"),
    "best rate": (
        edit_table("learning_rates/small", "learning_rate", 0.1),
        "learning_rates/small.parquet: .*training/small.parquet .* give",
    ),
    "loss": (
        edit_table("training/small", "train_loss", 0.5, which=2),
        "training.parquet: .*small.parquet",
    ),
    "relative rates": (
        edit(
            f"{RECORDS}/config.yaml",
            lambda t: t.replace("[0.1, 0.5, 2.0]", "{critical: [0.1, 0.5, 2.0]}"),
        ),
        "lacks .*learning_rate .*, for which the recorded config asks",
    ),
    "kernels along training": (
        shorten("kernels_along_training/small"),
        "small.parquet: lacks .*epoch 3, n_train 20, n 9, for which the recorded config asks",
    ),
    "critical rate": (
        edit_table("training_kernels/small", "critical_learning_rate", 0.5),
        "critical_learning_rate is 0.5, and n and lambda_max give",
    ),
    "rows": (shorten("spectra"), "spectra.parquet: lacks .*, for which the recorded config asks"),
    "curve": (shorten("training/small"), "lacks .*epoch 3, for which the recorded config asks"),
    "size": (edit_table("angles", "d", 65), "d is both 64 and 65|d is both 65 and 64"),
    "page": (edit(f"{RESULTS}/claims.html", lambda t: t.replace("holds", "fails")), "where it has"),
    "page's script": (
        edit(f"{RESULTS}/claims.html", lambda t: t.replace("</body>", "<script>1</script></body>")),
        "claims.html: .*give .*where it has .*script",
    ),
    "explorer": (edit(f"{RESULTS}/explorer.html", lambda t: f"{t} "), "explorer.html: .* give"),
    "swapped tables": (
        swap(f"{RESULTS}/tables/angles.parquet", f"{RESULTS}/tables/spectra.parquet"),
        "angles.parquet: a table of spectra",
    ),
    "no picture": (write(f"{FIGURE}.png", b"a text"), "no picture that can be read"),
    "no PDF": (write(f"{FIGURE}.pdf", b"a text"), "no PDF that can be read"),
    "script in a PDF": (write(f"{FIGURE}.pdf", SCRIPT), "pdf: has /(OpenAction|JavaScript) in it"),
    "swapped notebooks": (swap(NOTEBOOK, OTHER), "ipynb: .* is not the one of workflow/notebooks"),
    "notebook's code": (edit_json(NOTEBOOK, first_cell), "cell . is not the one of workflow"),
    "no figure": (
        remove(f"{FIGURE}.png", f"{FIGURE}.pdf", NOTEBOOK),
        "missing, though the recorded config asks for it",
    ),
    "no table": (remove(f"{RESULTS}/tables/angles.parquet"), "angles.parquet: missing, though"),
    "no page": (remove(f"{RESULTS}/claims.html"), "claims.html: missing, though"),
    "no config": (remove(f"{RECORDS}/config.yaml"), "config.yaml: "),
    "config": (
        edit(f"{RECORDS}/config.yaml", lambda t: t.replace("kernel_size: 6", "kernel_size: 7")),
        "lacks .*n 7, for which the recorded config asks",
    ),
    "config's width": (
        edit(f"{RECORDS}/config.yaml", lambda t: t.replace("\nwidth: 8", "\nwidth: 9")),
        "lacks .*width 9, .*for which the recorded config asks",
    ),
    "config's samples": (
        edit(f"{RECORDS}/config.yaml", lambda t: t.replace("\nsamples: 20", "\nsamples: 21")),
        "n of digits is 20, and 21 in the recorded config",
    ),
    "test samples": (edit_table("training/small", "n_test", 7), "n_test is both 7 and 0 at"),
    "list for a config": (write(f"{RECORDS}/config.yaml", b"[1]"), "config.yaml: "),
    "tag in a config": (write(f"{RECORDS}/config.yaml", b"!!python/name:os.system"), "YAML"),
    "no jobs": (edit_json(JOBS, lambda r: r["jobs"].clear()), "and .*jobs.json has no job of it"),
    "half the jobs": (edit_json(JOBS, lambda r: r["jobs"].__delitem__(slice(6))), "no job"),
    "digest of a job": (
        edit_json(JOBS, lambda r: r["jobs"][0].update(code="0" * 16)),
        "jobs.json: code of .* is 0000000000000000, and that of workflow/",
    ),
    "unknown rule": (
        edit_json(JOBS, lambda r: r["jobs"][0].update(rule="none", code="missing (none.py)")),
        "none has a job, and workflow/rules no such rule",
    ),
    "another rule": (
        edit_json(JOBS, another_rule),
        "render_explorer made .*claims.*, which check_claims makes",
    ),
    "no inputs": (
        edit_json(JOBS, lambda r: r["jobs"][0]["inputs"].clear()),
        "aggregate_conditioning made .* without reading .*spectra",
    ),
    "unknown key": (
        edit_json(JOBS, lambda r: r["jobs"][0].update(by="NIST")),
        "has 'by', which no",
    ),
    "source": (
        edit("workflow/scripts/aggregate_conditioning.py", lambda t: f"{t}\nprint(1)\n"),
        "code of aggregate_conditioning .* is .*, and that of workflow/",
    ),
    "no source": (
        remove("workflow/src/ntk_workflow/claims/checking.py"),
        "code of check_claims .* is .*, and that of workflow/",
    ),
    "no rule": (remove("workflow/rules/spectra.smk"), "workflow/rules/spectra.smk: missing, and"),
    "paper": (edit("workflow/papers/tiny.yaml", lambda t: t.replace("target: 1", "target: 2")), ""),
    "versions": (
        edit_json(f"{RECORDS}/versions.json", lambda v: v["ntk-conditioning"].update(code="0")),
        "versions.json: code is 0, and that of workflow/",
    ),
}
#: The same of what the crate says, whose checksums are right.
DESCRIBED = {
    "text for jobs": (write(JOBS, b'"jobs"'), "jobs.json: damaged"),
    "author": (entity("./", author={"@id": "#me"}), "author of ./ is .*#me.*, and the files and"),
    "licence": (entity("./", license={"@id": "#none"}), "license of ./ is .*, and the files and"),
    "date": (entity("./", datePublished="2020-01-01"), "datePublished of ./ is .*2020.*give"),
    "failed run": (entity("#run", actionStatus="Failed"), "actionStatus of #run is .*Failed"),
    "no data": (entity("#run", object=[]), "object of #run is .*, and the files and records give"),
    "no results": (entity("#run", result=[]), "result of #run is .*, and the files and records"),
    "context": (
        edit_json("ro-crate-metadata.json", lambda m: m.update({"@context": "https://x.org"})),
        "another context",
    ),
    "README": (edit("README.md", lambda t: f"{t}!"), "README.md: "),
}


@pytest.fixture(scope="module")
def unpacked(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return archive.unpack(bundle, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture
def payload(unpacked: Path, name: str) -> Iterator[Path]:
    """A payload to forge, in one place: what its sources import is known there.

    One that lacks a source is elsewhere, or the others would be taken for lacking it, too.
    """
    folder = unpacked.with_name("lacking" if name == "no source" else "forged") / RUN
    shutil.copytree(unpacked / "data", folder)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", [*FORGERIES, *DESCRIBED])
def test_forgeries_with_all_checksums_made_anew(unpacked: Path, payload: Path, refused, name):
    forge, words = (FORGERIES | DESCRIBED)[name]
    if name in FORGERIES:
        forge(payload)
    describe(payload)
    if name in DESCRIBED:
        forge(payload)
        seal(payload)
    rebag(payload, unpacked)
    assert re.search(words, line := refused(payload)), line


def test_what_is_no_bundle(tmp_path: Path, refused, refusal):
    assert "no zip archive" in refused(written(tmp_path, b"no archive"))
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    assert "the archive is empty" in refused(tmp_path / "empty.zip")
    assert "does not exist" in refusal(verify_bundle, [tmp_path / "none.zip"])


def test_one_value_changed_anywhere(unpacked: Path, tmp_path: Path):
    """Of a value that follows from others, or from which others follow, the change is seen."""
    payload, rng = tmp_path / "data", random.Random(0)
    shutil.copytree(unpacked / "data/results", payload / "results")
    for name in ("papers", "datasets.yaml", "notebooks"):
        source, target = unpacked / "data/workflow" / name, payload / "workflow" / name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    plan = recorded_plan(payload, RUN)
    found = [*derivations(plan, with_rows=False)]
    accepted = []
    for _ in range(60):
        forged = forge_table(payload, rng)
        try:
            for check in (require_cells, require_relations, require_joins):
                check(payload, plan)
            for each in found:
                reached = {*each.outputs.values(), *(n for f in each.inputs.values() for n in f)}
                if reached & {*forged.files}:
                    with quiet():
                        problems = problems_of(payload, each, verification.PROGRAMS[each.program])
                    if problems:
                        raise BundleError(problems[0])
            accepted.append(forged)
        except BundleError:
            pass
        for name in forged.files:
            shutil.copyfile(unpacked / "data" / name, payload / name)
    assert not [each for each in accepted if not raw(each)]
    assert len(accepted) < 15


def ssh_keygen(*words):
    done = subprocess.run(["ssh-keygen", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def signed(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle, its signature by alice, and keys of alice and bob."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is not installed")
    folder = tmp_path_factory.mktemp("signed")
    shutil.copyfile(bundle, folder / "run.zip")
    for name in ("alice", "bob"):
        ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / name)
    ssh_keygen("-Y", "sign", "-n", signatures.NAMESPACE, "-f", folder / "alice", folder / "run.zip")
    return folder


def signers(folder: Path, name: str, options: str = "") -> Path:
    """Write the file of signers with one key, as from GitHub's page of it."""
    path, key = folder / "signers", (folder / f"{name}.pub").read_text()
    path.write_text(f"{name} {options} {key}")
    return path


def test_a_signature_is_part_of_the_verdict(signed: Path, capsys):
    zipped = signed / "run.zip"
    assert verify_bundle.main([str(zipped), f"--signers={signers(signed, 'alice')}"]) == 0
    assert "run.zip: consistent; signed by alice (SHA256:" in capsys.readouterr().err
    assert verify_bundle.main([str(zipped)]) == 0
    assert "consistent; a signature is beside it, unchecked" in capsys.readouterr().err


def test_signatures_that_do_not_count(signed: Path, tmp_path: Path, refusal):
    def line(folder: Path, name: str = "alice", options: str = "") -> str:
        who = signers(folder, name, options)
        return refusal(verify_bundle, [folder / "run.zip", f"--signers={who}"])

    folder = shutil.copytree(signed, tmp_path / "signed")
    assert "by none of the keys of" in line(folder, "bob")
    assert "or by one that has expired" in line(folder, options='valid-before="20200101"')
    (folder / "run.zip").write_bytes(b"another")
    assert "is no signature of it by alice (Signature verification failed" in line(folder)
    signature = folder / "run.zip.sig"
    signature.unlink()
    assert f"not signed, there is no {signature}" in line(folder)
    ssh_keygen("-Y", "sign", "-n", "email", "-f", folder / "alice", folder / "run.zip")
    assert "is no signature of it by alice" in line(folder)
    signature.write_text("no signature")
    assert "by none of the keys of" in line(folder)
    assert "a folder has no signature" in refusal(verify_bundle, [folder, "--signers=none"])
