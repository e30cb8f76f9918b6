"""A consistent bundle is accepted, all others are refused in one line that says what is wrong."""

import io
import json
import random
import re
import stat
import tempfile
import warnings
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
import verify_bundle

from ntk_conditioning import tables
from ntk_conditioning.files import sha256
from ntk_conditioning.tables.angles import ANGLES
from ntk_workflow.bundle import archive, bag
from tests import rows
from tests.bundles import JOBS, RESULTS, RUN, altered, write_bundle

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
    table = rows.write(payload / ANGLES_FILE.removeprefix("data/"), ANGLES, *cells)
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
    cells = tables.read(folder / ANGLES_FILE, ANGLES).to_pylist()
    rng.choice(cells)["min_angle"] += 1.0
    tables.write(folder / ANGLES_FILE, ANGLES, tables.from_rows(ANGLES, cells))


def extra_file(*places):
    return lambda folder, rng: (folder / rng.choice(places)).write_text("more")


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
    assert "13 tables, 24 files known to jobs, 11 files made again from others" in messages
    assert "consistent; not signed: whoever holds it could have changed it; sha256" in messages
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(tmp_path)
    assert verify_bundle.main([str(tmp_path / RUN)]) == 0


def test_bundles_damaged_at_random_are_refused_with_the_right_word(bag_of_few, tmp_path, refused):
    rng = random.Random(0)
    for number in range(3 * len(DAMAGES)):
        damage, word = DAMAGES[number % len(DAMAGES)]
        line = refused(damage(bag_of_few, tmp_path / "outer" / f"{number}", rng))
        assert re.search(word, line), f"{number}: not {word}: {line}"


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
        pa.parquet.write_table(UNDECLARED[word](tables.read(path, ANGLES)), path)

    line = refused(altered(bundle, tmp_path, rewrite, bagged=True, described=True))
    assert f"{RUN}/tables/angles.parquet: " in line
    assert word in line


def test_what_is_no_bundle(tmp_path: Path, refused, refusal):
    assert "no zip archive" in refused(written(tmp_path, b"no archive"))
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    assert "the archive is empty" in refused(tmp_path / "empty.zip")
    assert "does not exist" in refusal(verify_bundle, [tmp_path / "none.zip"])
