"""A bundle is accepted as it was made, and refused in one line that says what is wrong with it."""

from __future__ import annotations

import io
import random
import re
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
import verify_bundle

from ntk_conditioning import tables
from ntk_conditioning.tables.angles import ANGLES
from ntk_workflow.bundle import archive
from tests.bundles import JOBS, RUN, TABLES, altered, write_bundle

Damage = Callable[[Path, Path, random.Random], Path]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    return write_bundle(folder / f"{RUN}.zip", folder / "scratch")


def refusal(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line with which a bundle is refused."""
    assert verify_bundle.main([str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"verify_bundle: error: {path}: ")
    return line.removeprefix(f"verify_bundle: error: {path}: ")


def payload_files(folder: Path) -> list[Path]:
    return archive.files_in(folder / "data")


def change_number(path: Path, chance: random.Random | None = None) -> None:
    """Add one to a number of a table, keeping it a sound table."""
    data = tables.read(path, ANGLES)
    values = data["min_angle"].to_pylist()
    place = chance.randrange(len(values)) if chance else 0
    values[place] += 1.0
    column = data.schema.get_field_index("min_angle")
    data = data.set_column(column, data.schema.field(column), pa.array(values, pa.float64()))
    tables.write(path, ANGLES, data)


def flipped_bit(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    content = bytearray(bundle.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return written(scratch, bytes(content))


def cut_off(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    content = bundle.read_bytes()
    return written(scratch, content[: chance.randrange(len(content))])


def appended(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    return written(scratch, bundle.read_bytes() + chance.randbytes(chance.randrange(1, 99)))


def lost_file(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    return altered(bundle, scratch, lambda f: chance.choice(payload_files(f)).unlink())


def lost_manifest(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    return altered(bundle, scratch, lambda f: chance.choice(sorted(f.glob("*.txt"))).unlink())


def extra_file(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    place = chance.choice(["data/more.txt", "data/results/tiny/more.csv", "more.txt", "fetch.txt"])
    return altered(bundle, scratch, lambda f: (f / place).write_text("more") and None)


def other_byte(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    """Change a file by one bit, in an archive whose own checksums are right."""

    def change(folder: Path) -> None:
        path = chance.choice(payload_files(folder))
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)

    return altered(bundle, scratch, change)


def other_number(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    return altered(bundle, scratch, lambda f: change_number(f / "data" / TABLES["angles"], chance))


def other_number_bagged(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    """Change a number and make the bag's manifests anew."""
    return altered(
        bundle,
        scratch,
        lambda f: change_number(f / "data" / TABLES["angles"], chance),
        bagged_again=True,
    )


def extra_file_bagged(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    """Add a file and make the bag's manifests anew."""
    place = chance.choice(["data/more.txt", f"data/results/{RUN}/tables/more.parquet"])
    return altered(
        bundle, scratch, lambda f: (f / place).write_text("more") and None, bagged_again=True
    )


def member(name: str, kind: int = stat.S_IFREG) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, archive.EARLIEST)
    info.create_system, info.external_attr = 3, (kind | 0o644) << 16
    return info


def with_member(bundle: Path, scratch: Path, info: zipfile.ZipInfo, content: bytes) -> Path:
    target = written(scratch, bundle.read_bytes())
    with warnings.catch_warnings(), zipfile.ZipFile(target, "a") as opened:
        warnings.simplefilter("ignore")  # a name that is there already is what is wanted
        opened.writestr(info, content, compress_type=info.compress_type)
    return target


def climbing(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    names = ["../evil", f"{RUN}/../../evil", "/tmp/evil", f"{RUN}/data/../../../evil", "..\\evil"]
    return with_member(bundle, scratch, member(chance.choice(names)), b"evil")


def link(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    info = member(f"{RUN}/data/link-{chance.random()}", stat.S_IFLNK)
    return with_member(bundle, scratch, info, b"/etc/hostname")


def twice(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    with zipfile.ZipFile(bundle) as opened:
        name = chance.choice(opened.namelist())
    return with_member(bundle, scratch, member(chance.choice([name, name.upper()])), b"again")


def bomb(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    info = member(f"{RUN}/data/zeros-{chance.random()}")
    info.compress_type = zipfile.ZIP_DEFLATED
    return with_member(bundle, scratch, info, bytes(10**7))


def overlapping_bomb(bundle: Path, scratch: Path, chance: random.Random) -> Path:
    """Let two entries of the archive's list name one and the same stored member."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        opened.writestr(member(f"{RUN}/data/a"), chance.randbytes(2000))
        first = opened.infolist()[0]
        for number in range(chance.randrange(3, 50)):
            again = member(f"{RUN}/data/b{number:03d}")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.file_size = again.compress_size = first.file_size
            opened.filelist.append(again)
            opened.NameToInfo[again.filename] = again
    return written(scratch, stream.getvalue())


def written(scratch: Path, content: bytes) -> Path:
    scratch.mkdir(parents=True, exist_ok=True)
    target = scratch / "damaged.zip"
    target.write_bytes(content)
    return target


# A bit of an archive may lie in a name, a size or a kind of its list of members: any word will do.
ANY = "damaged|missing|extra|climbs|link|plain file|compressed|zip bomb|name that|twice|at once"
DAMAGES: list[tuple[Damage, str]] = [
    (flipped_bit, ANY),
    (flipped_bit, ANY),
    (other_byte, "damaged"),
    (cut_off, "damaged, cut off"),
    (appended, "damaged"),
    (lost_file, "missing"),
    (lost_manifest, "missing"),
    (extra_file, "extra file"),
    (extra_file_bagged, "an extra file"),
    (other_number, "damaged"),
    (other_number_bagged, "changed, it is not the file that its job has written"),
    (climbing, "climbs out"),
    (link, "is a link"),
    (twice, "stands in the archive twice"),
    (bomb, "a zip bomb"),
    (overlapping_bomb, "a zip bomb"),
]


def test_a_bundle_is_accepted_as_it_was_made(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert verify_bundle.main([str(bundle)]) == 0
    said = capsys.readouterr().err
    assert "2 tables, 4 files known to jobs" in said
    assert "as it was made; sha256" in said
    with zipfile.ZipFile(bundle) as opened:
        opened.extractall(tmp_path)
    assert verify_bundle.main([str(tmp_path / RUN)]) == 0


def test_a_hundred_bundles_damaged_at_random_are_refused_with_the_right_word(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    chance = random.Random(0)
    for number in range(100):
        damage, word = DAMAGES[number % len(DAMAGES)]
        path = damage(bundle, tmp_path / "outer" / f"{number}", chance)
        line = refusal(path, capsys)
        assert re.search(word, line), f"{number}, {damage.__name__}: {line}"
    assert not list(tmp_path.rglob("evil"))


def test_every_bit_of_what_no_checksum_covers_is_looked_at(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Times, permissions and versions of members are not part of their content."""
    content = bundle.read_bytes()
    start = content.index(b"PK\x01\x02")
    for byte in [*range(4, 30), *range(start, start + 46), *range(len(content) - 22, len(content))]:
        changed = bytearray(content)
        changed[byte] ^= 1
        assert refusal(written(tmp_path, bytes(changed)), capsys)


def test_packed_by_another_program(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with zipfile.ZipFile(bundle) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}
    target = tmp_path / "other.zip"
    with zipfile.ZipFile(target, "w") as packed:
        for name, content in contents.items():
            info = member(name)
            info.date_time = (2020, 1, 1, 0, 0, 0)
            packed.writestr(info, content)
    assert "packed by another program" in refusal(target, capsys)


def test_a_number_changed_with_every_checksum_but_the_crates(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def change(folder: Path) -> None:
        path = folder / "data" / TABLES["angles"]
        before = archive_digest(path)
        change_number(path)
        jobs = folder / "data" / JOBS
        jobs.write_text(jobs.read_text().replace(before, archive_digest(path)))

    line = refusal(altered(bundle, tmp_path, change, bagged_again=True), capsys)
    assert "changed, its sha256 is not the one in the RO-Crate" in line


def archive_digest(path: Path) -> str:
    from ntk_conditioning.files import sha256

    return sha256(path)


def test_a_number_changed_with_every_checksum_cannot_be_told(bundle: Path, tmp_path: Path):
    """Said in the documentation: for this, compare the bundle's own sha256 with the published."""
    forged = altered(
        bundle,
        tmp_path,
        lambda f: change_number(f / "data" / TABLES["angles"]),
        bagged_again=True,
        described_again=True,
    )
    assert verify_bundle.main([str(forged)]) == 0
    assert archive_digest(forged) != archive_digest(bundle)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: data.drop_columns(["min_angle"]), "not a angles table of this version"),
        (lambda data: data.take(pc.sort_indices(data, [("seed", "descending")])), "in the order"),
        (lambda data: pa.concat_tables([data, data.slice(0, 1)]), "rows repeat the key"),
        (
            lambda data: data.replace_schema_metadata({**data.schema.metadata, b"keys": b"n"}),
            "of another version",
        ),
        (lambda data: data.replace_schema_metadata({b"table": b"unknown"}), "no table that"),
    ],
    ids=["column", "order", "repeated", "description", "unknown"],
)
def test_tables_that_are_not_as_declared(
    bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[pa.Table], pa.Table],
    word: str,
):
    def rewrite(folder: Path) -> None:
        path = folder / "data" / TABLES["angles"]
        pa.parquet.write_table(change(tables.read(path, ANGLES)), path)

    path = altered(bundle, tmp_path, rewrite, bagged_again=True, described_again=True)
    line = refusal(path, capsys)
    assert f"{RUN}/tables/angles.parquet: " in line
    assert word in line


def test_what_is_no_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "text.zip").write_text("no archive")
    assert "no zip archive" in refusal(tmp_path / "text.zip", capsys)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    assert "the archive is empty" in refusal(tmp_path / "empty.zip", capsys)
    assert verify_bundle.main([str(tmp_path / "none.zip")]) == 2
    assert "does not exist" in capsys.readouterr().err
