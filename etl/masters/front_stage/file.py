"""The front stage as a file: replaced atomically, checksummed, memory-mapped by every worker.

    magic │ length, crc32 of the header │ header (JSON) │ index lanes │ index values │ frequencies │ rows (Arrow IPC)

The file has the in-memory layout, so opening takes constant time. The header identifies the master's rows. It is a
cache: it is not synced to disk, and after a checksum error the front stage starts empty.

The previous file stays beside the new one until the next is written. The last process to unmap a deleted file pays for
freeing its pages, some twenty milliseconds per batch; this way it is not a worker.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columnar.hash_index import HashIndex
from etl.enrich.front_stage.shared import HotRows
from etl.errors import TerminalError

_MAGIC = b"FSHOT\x00\x00\x01"
_HEAD = struct.Struct("<8sII")
_ALIGN = 64


class FrontStageDamaged(TerminalError):
    """A checksum does not match. Handled internally, by starting with an empty front stage."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"front stage {self.path.name} is damaged ({self.what}); it is rebuilt from the master"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of the rows: the id of the master's rows, and the parts of the store they were read from."""

    rows_id: str
    parts: tuple[str, ...] = ()


def save(path: Path, hot: HotRows, belongs: Provenance) -> None:
    """Replace the file's content; processes that have it mapped keep the old rows."""
    lo, hi, value = hot.index.slots
    parts: dict[str, Any] = {"lo": lo, "value": value, "frequency": hot.frequency, "rows": _ipc(hot.rows)}
    if hi is not None:
        parts["hi"] = hi
    buffers = {name: memoryview(part).cast("B") for name, part in parts.items()}
    header = json.dumps({**asdict(belongs), "size": hot.rows.num_rows, "buffers": _placed(buffers)}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    building = path.with_name(f".{path.name}.{os.getpid()}")
    with building.open("wb") as file:
        file.write(_HEAD.pack(_MAGIC, len(header), zlib.crc32(header)))
        file.write(header)
        for buffer in buffers.values():
            file.write(bytes(-file.tell() % _ALIGN))
            file.write(buffer)
    _keep_previous(path)
    building.rename(path)


def _keep_previous(path: Path) -> None:
    again, previous = (path.with_name(f".{path.name}.{what}") for what in ("again", "previous"))
    again.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        again.hardlink_to(path)
        again.rename(previous)


def _placed(buffers: dict[str, memoryview]) -> dict[str, list[int]]:
    """Offset behind the header, length and checksum of each part."""
    placed, at = {}, 0
    for name, buffer in buffers.items():
        placed[name] = [at, len(buffer), zlib.crc32(buffer)]
        at += -(-len(buffer) // _ALIGN) * _ALIGN
    return placed


def _ipc(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue()


def load(path: Path, *, verify: bool) -> tuple[HotRows, Provenance]:
    """The mapped rows and their provenance. `verify` reads every byte once."""
    data = _mapped(path)
    header, start = _header(data, path)
    parts = {name: data[start + at : start + at + size] for name, (at, size, _) in header["buffers"].items()}
    for name, (_, size, crc) in header["buffers"].items():
        if parts[name].size != size or (verify and zlib.crc32(parts[name]) != crc):
            raise FrontStageDamaged(path, f"its {name} are not what was written")
    lanes = {name: np.frombuffer(parts[name], np.uint64) for name in ("lo", "hi") if name in parts}
    value = np.frombuffer(parts["value"], np.int32)
    index = HashIndex.over(lanes["lo"], lanes.get("hi"), value, header["size"])
    rows = pa.ipc.open_file(parts["rows"]).read_all()
    hot = HotRows(rows, np.frombuffer(parts["frequency"], np.int64), index)
    return hot, Provenance(header["rows_id"], tuple(header["parts"]))


def _mapped(path: Path) -> pa.Buffer:
    with pa.memory_map(str(path)) as file:
        if file.size() < _HEAD.size:
            raise FrontStageDamaged(path, "it is cut short")
        return file.read_buffer()


def _header(data: pa.Buffer, path: Path) -> tuple[dict[str, Any], int]:
    magic, length, crc = _HEAD.unpack(data[: _HEAD.size].to_pybytes())
    body = data[_HEAD.size : _HEAD.size + length].to_pybytes()
    if magic != _MAGIC:
        raise FrontStageDamaged(path, "it is no front stage of this format")
    if zlib.crc32(body) != crc:
        raise FrontStageDamaged(path, "its header is not what was written")
    start = _HEAD.size + length
    return json.loads(body), start + -start % _ALIGN
