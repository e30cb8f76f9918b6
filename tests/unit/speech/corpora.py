"""Small corpora in LibriSpeech's layout, made of noise."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile

LENGTHS = {(7, 1, 0): 16000, (7, 1, 1): 399, (7, 2, 0): 8000, (12, 3, 0): 20000, (100, 4, 2): 560}


def noise(utterance: tuple[int, int, int], samples: int) -> np.ndarray:
    random = np.random.default_rng(utterance)
    return (random.standard_normal(samples) * 900).astype(np.int16)


def flac(waveform: np.ndarray, *, rate: int = 16000, subtype: str = "PCM_16") -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, waveform, rate, format="FLAC", subtype=subtype)
    return stream.getvalue()


def file_name(utterance: tuple[int, int, int], subset: str = "dev") -> str:
    speaker, chapter, number = utterance
    name = f"{speaker}-{chapter}-{number:04d}.flac"
    return f"LibriSpeech/{subset}/{speaker}/{chapter}/{name}"


def make_tree(folder: Path, lengths: Mapping[tuple[int, int, int], int] = LENGTHS) -> Path:
    """Write a corpus and return the folder that holds LibriSpeech."""
    for utterance, samples in lengths.items():
        path = folder / file_name(utterance)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(flac(noise(utterance, samples)))
    (folder / "LibriSpeech" / "SPEAKERS.TXT").write_text("; none\n")
    return folder


def make_tar(tree: Path, archive: Path) -> Path:
    """Pack a tree as the official archives are; the order of the members is reversed."""
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(tree.rglob("*"), reverse=True):
            tar.add(path, path.relative_to(tree).as_posix(), recursive=False)
    return archive
