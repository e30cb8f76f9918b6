"""The project's LibriSpeech utterances, and a small corpus made from three of them."""

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

SAMPLE = Path(__file__).parents[4] / "resources" / "LibriSpeech"
SUBSET = "train-clean-100"
UTTERANCES = sorted(SAMPLE.rglob("*.flac"))


def read_waveform(path: Path = UTTERANCES[0]) -> np.ndarray:
    return soundfile.read(path, dtype="int16")[0]


def flac(waveform: np.ndarray, *, rate: int = 16000, subtype: str = "PCM_16") -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, waveform, rate, format="FLAC", subtype=subtype)
    return stream.getvalue()


def make_tree(folder: Path) -> Path:
    """Copy three speakers, and give the first one a recording shorter than a frame."""
    for speaker in ("19", "328", "403"):
        place = Path("LibriSpeech", SUBSET, speaker)
        shutil.copytree(SAMPLE / SUBSET / speaker, folder / place)
    short = folder / "LibriSpeech" / SUBSET / "19/198/19-198-0001.flac"
    short.write_bytes(flac(read_waveform()[:399]))
    (folder / "LibriSpeech" / "SPEAKERS.TXT").write_text("; none\n")
    return folder


def make_tar(tree: Path, archive: Path) -> Path:
    """Pack a tree as the official archives are; the order of the members is reversed."""
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(tree.rglob("*"), reverse=True):
            tar.add(path, path.relative_to(tree).as_posix(), recursive=False)
    return archive


def damaged(whole: bytes) -> Iterator[bytes]:
    """Yield 200 variants: one bit flipped at the start or anywhere, or the end cut off."""
    random = np.random.default_rng(0)
    for variant in range(200):
        data = bytearray(whole)
        place = int(random.integers(42 if variant % 4 == 0 else len(data)))
        if variant % 4 == 3:
            del data[place:]
        else:
            data[place] ^= 1 << int(random.integers(8))
        yield bytes(data)
