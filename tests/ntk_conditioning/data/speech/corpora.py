"""The project's LibriSpeech utterances, and a small corpus made from three of them."""

import io
import shutil
import tarfile
from pathlib import Path

import numpy as np
import soundfile
from praatio import textgrid

from ntk_conditioning.data.samples import RawSamples
from ntk_conditioning.data.speech.corpus import decode

SAMPLE = Path(__file__).parents[4] / "resources" / "LibriSpeech"
SUBSET = "train-clean-100"
UTTERANCES = sorted(SAMPLE.rglob("*.flac"))
INTERVALS = [(0.0, 0.11, ""), (0.11, 0.2225, "HH"), (0.2225, 0.4, "AH0"), (0.4, 0.5, "spn")]


def read_waveform(path: Path = UTTERANCES[0]) -> np.ndarray:
    return soundfile.read(path, dtype="int16")[0]


def read_flac(path: Path) -> RawSamples:
    waveform = decode(path.read_bytes(), source=str(path), sample_rate=16000)
    return RawSamples(waveform, None, str(path), str(path))


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


def write_textgrid(folder, intervals=INTERVALS, *, name="a", tier="phones", form="long_textgrid"):
    path = folder / f"{name}.TextGrid"
    path.parent.mkdir(parents=True, exist_ok=True)
    grid = textgrid.Textgrid()
    grid.addTier(textgrid.IntervalTier("words", [(0, intervals[-1][1], "hu")]))
    grid.addTier(textgrid.IntervalTier(tier, intervals, 0, intervals[-1][1]))
    grid.save(str(path), format=form, includeBlankSpaces=True)
    return path
