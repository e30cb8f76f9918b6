"""Arrays of bytes in MATLAB's version 5 files, which ``save -v7`` and ``save -v6`` write.

Read here and not by SciPy, which takes a damaged tag at its word: some flipped bits end it with a
segmentation fault, which no program can report. Here whatever the format says twice is compared
before anything is allocated, and the values are unpacked straight to their place, in half the
memory.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ntk_conditioning.data.archives import ContentError, FormatError
from ntk_conditioning.files import require_file

_HEADER = 128
_INT8, _UINT8, _INT32, _UINT32, _MATRIX, _PACKED = 1, 2, 5, 6, 14, 15  # types of elements
_UINT8_CLASS = 9
_CLASSES: Mapping[int, str] = {
    1: "cell",
    2: "struct",
    3: "object",
    4: "char",
    5: "sparse",
    6: "double",
    7: "single",
    8: "int8",
    _UINT8_CLASS: "uint8",
    10: "int16",
    11: "uint16",
    12: "int32",
    13: "uint32",
    14: "int64",
    15: "uint64",
}
_FLAGS = {0x02: "logical", 0x08: "complex"}
_MAX_NAME = 2048
_MAX_DIMENSIONS = 32
_MAX_RATIO = 1032  # a byte of deflate data makes no more
_CHUNK = 1 << 20


class MatError(FormatError):
    """A file breaks the format of MATLAB's version 5 files, or is of another version."""


def read_byte_arrays(path: Path, names: Collection[str]) -> dict[str, NDArray[np.uint8]]:
    """Return variables of class uint8 by name, in MATLAB's memory order; others are passed over.

    The format (MathWorks, "MAT-File Format"): a header of 128 bytes, then elements, each a tag of
    type and size followed by its data; a variable is an element of type matrix, possibly inside
    one that is packed by zlib, and has elements for class, dimensions, name and values.

    Raises:
        MissingFileError: if there is no such file.
        MatError: with the byte position where the file goes wrong.
        ContentError: if a variable is not there, is empty or of another class.
    """
    require_file(path)
    arrays: dict[str, NDArray[np.uint8]] = {}
    others = []
    with path.open("rb") as stream:
        end = stream.seek(0, 2)
        stream.seek(0)
        _require_version_5(path, stream.read(_HEADER))
        position = _HEADER
        while position < end:
            variable = _variable(path, stream, position, end)
            if variable.name in arrays:
                raise MatError(f"{path}: variable {variable.name} stands there twice")
            if variable.name in names:
                arrays[variable.name] = variable.values()
            else:
                others.append(variable.name)
            position = variable.end
            stream.seek(position)
    missing = [name for name in names if name not in arrays]
    if missing:
        known = ", ".join([*arrays, *others]) or "none"
        raise ContentError(f"{path} has no variable {missing[0]}; its variables: {known}")
    return arrays


def _require_version_5(path: Path, header: bytes) -> None:
    if header.startswith((b"MATLAB 7.3", b"\x89HDF")) or header[124:126] == b"\x00\x02":
        raise MatError(
            f"{path} is a MATLAB file of version 7.3 (HDF5); save it with -v7, or take the "
            "original file"
        )
    if len(header) < _HEADER:
        raise MatError(f"{path}: ends at byte {len(header)}, inside the 128-byte MATLAB header")
    if 0 in header[:4]:
        raise MatError(f"{path} is no MATLAB file of version 5; save it with -v7")
    if header[126:] == b"MI":
        raise MatError(f"{path} is a big-endian MATLAB file; save it anew with -v7")
    if header[124:] != b"\x00\x01IM":
        raise MatError(
            f"{path}: bytes 124 to 127 are 0x{header[124:].hex()}, not 0x0001494d as in a MATLAB "
            "file of version 5; fetch it again"
        )


@dataclass
class _Content:
    """The bytes of one element of the file, unpacked if they are packed."""

    path: Path
    stream: IO[bytes]
    start: int  # of the element, its tag included
    left: int  # bytes of the file that are not read yet
    unpacker: Any = None  # of zlib, whose types have no public name
    position: int = 0  # among the unpacked bytes
    pending: bytes = field(default=b"", repr=False)

    def refuse(self, problem: str) -> NoReturn:
        where = f"byte {self.start + 8 + self.position}, in"
        if self.unpacker is not None:
            where = f"byte {self.position} of what is packed in"
        raise MatError(
            f"{self.path}: {problem} ({where} the element at byte {self.start}); it is damaged: "
            "fetch it again"
        )

    def most(self) -> int:
        """Return a limit of the bytes that can follow."""
        packed = self.left + len(self.pending)
        return packed if self.unpacker is None else packed * _MAX_RATIO + _CHUNK

    def fill(self, place: memoryview) -> None:
        done = 0
        while done < len(place):
            piece = self._some(min(len(place) - done, _CHUNK))
            if not piece:
                self.refuse(f"ends {len(place) - done} bytes early")
            place[done : done + len(piece)] = piece
            done += len(piece)
            self.position += len(piece)

    def take(self, count: int) -> bytes:
        place = bytearray(count)
        self.fill(memoryview(place))
        return bytes(place)

    def tag(self) -> tuple[int, int, bytes | None]:
        """Return type and size of an element, and its data if they stand inside the tag."""
        first, second = struct.unpack("<I4s", self.take(8))
        if first >> 16 == 0:
            return first, int.from_bytes(second, "little"), None
        size = first >> 16
        if size > 4:
            self.refuse(f"a short element has {size} bytes, not 1 to 4")
        return first & 0xFFFF, size, second[:size]

    def element(self, kind: int, what: str, *, most: int) -> bytes:
        """Return the data of a small element of one type."""
        found, size, data = self.tag()
        if found != kind or not 1 <= size <= most:
            self.refuse(
                f"{what} has type {found} and {size} bytes, not type {kind} and 1 to {most}"
            )
        if data is None:
            data = self.take(size)
            self.take(-size % 8)
        return data

    def finish(self) -> None:
        """Read to the end, which must be here; zlib then compares its checksum."""
        if self._some(1):
            self.refuse("more data follow than the element's size says")
        if self.left or self.pending or (self.unpacker is not None and self.unpacker.unused_data):
            self.refuse("bytes follow the packed data")

    def _some(self, most: int) -> bytes:
        if self.unpacker is None:
            data = self.stream.read(min(most, self.left))
            self.left -= len(data)
            return data
        while True:
            try:
                data = self.unpacker.decompress(self.pending, most)
            except zlib.error as error:
                self.refuse(f"damaged zlib data ({error})")
            self.pending = self.unpacker.unconsumed_tail
            if data or self.unpacker.eof:
                return bytes(data)
            self.pending = self.stream.read(min(_CHUNK, self.left))
            self.left -= len(self.pending)
            if not self.pending:
                self.refuse("the zlib data are cut off")


@dataclass(frozen=True)
class _Variable:
    """A variable whose head is read, but not its values."""

    name: str
    shape: tuple[int, ...]
    kind: str
    end: int  # of its element in the file
    size: int  # of the matrix, by its tag
    content: _Content = field(repr=False)
    begin: int = 0  # of the matrix, among the content's bytes

    def values(self) -> NDArray[np.uint8]:
        content, shape = self.content, " × ".join(map(str, self.shape))
        if self.kind != "uint8":
            raise ContentError(
                f"{content.path}: variable {self.name} is {self.kind}, not uint8; fetch the "
                "original file"
            )
        if 0 in self.shape:
            raise ContentError(f"{content.path}: variable {self.name} is empty ({shape})")
        kind, size, data = content.tag()
        if kind != _UINT8:
            content.refuse(f"the values of {self.name} are stored as type {kind}, not {_UINT8}")
        if size != math.prod(self.shape):
            content.refuse(f"{self.name} is {shape}, but has {size} bytes of values")
        padding = 0 if data is not None else -size % 8
        following = 0 if data is not None else size + padding
        if content.position + following != self.begin + self.size:
            content.refuse(f"{self.name} has {self.size} bytes by its tag, but not by its parts")
        if following > content.most():
            content.refuse(f"{self.name} has {size} bytes, but the file ends before")
        if data is None:
            values = bytearray(size)
            content.fill(memoryview(values))
            content.take(padding)
        else:
            values = bytearray(data)
        content.finish()
        return np.frombuffer(values, np.uint8).reshape(self.shape, order="F")


def _variable(path: Path, stream: IO[bytes], start: int, end: int) -> _Variable:
    tag = stream.read(8)
    if len(tag) < 8:
        raise MatError(
            f"{path}: ends at byte {end}, inside the tag of the element at byte {start}; fetch it "
            "again"
        )
    kind, size = struct.unpack("<II", tag)
    if kind not in (_MATRIX, _PACKED):
        raise MatError(
            f"{path}: the element at byte {start} has type {kind}, not {_MATRIX} (a variable) or "
            f"{_PACKED} (a packed one); it is damaged: fetch it again"
        )
    stop = start + 8 + size
    if stop > end:
        raise MatError(
            f"{path}: ends at byte {end}, but the element at byte {start} ends at byte {stop}; it "
            "is cut off or damaged: fetch it again"
        )
    content = _Content(path, stream, start, size)
    if kind == _PACKED:
        content.unpacker = zlib.decompressobj()
        kind, size, _ = content.tag()
        if kind != _MATRIX:
            content.refuse(f"type {kind} is packed, not {_MATRIX} (a variable)")
    begin = content.position
    flags = content.element(_UINT32, "the class", most=8)
    dimensions = content.element(_INT32, "the shape", most=4 * _MAX_DIMENSIONS)
    name = content.element(_INT8, "the name", most=_MAX_NAME)
    if len(flags) != 8 or len(dimensions) % 4 or not name.isascii():
        content.refuse("class, shape or name of a variable make no sense")
    shape = struct.unpack(f"<{len(dimensions) // 4}i", dimensions)
    if len(shape) < 2 or min(shape) < 0:
        content.refuse(f"the shape {shape} makes no sense")
    attributes = [text for bit, text in _FLAGS.items() if flags[1] & bit]
    kind_name = " ".join([*attributes, _CLASSES.get(flags[0], f"of class {flags[0]}")])
    return _Variable(name.decode("ascii"), shape, kind_name, stop, size, content, begin)
