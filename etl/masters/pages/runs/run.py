"""Reading a run: pages are found by fence keys, and verified before their data is used.

A page is verified when it is first read, and then marked (`verified`). So damaged data is never returned, opening a run
takes constant time, and a page is verified once. A search may touch unverified pages, but its result is accepted only
inside the page that the fences named: if a damaged key misleads it, it ends outside that page, and the whole segment is
verified.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.masters.pages.errors import PageDamaged, RunDamaged, RunMissing, RunTruncated
from etl.masters.pages.manifest import RunEntry
from etl.masters.pages.parallel import parallel_map
from etl.masters.pages.runs import layout
from etl.masters.pages.runs.layout import Checksums, Index
from etl.masters.pages.runs.verified import Marks, mark_all, marks_of
from etl.masters.pages.runs.writer import data_file, index_file
from etl.masters.rows import key_codec
from etl.masters.rows.key_codec import Mask, Rows
from etl.masters.rows.shape import Shape, whole

Bytes = Callable[[int, int], pa.Buffer]
"""The bytes of a file from an offset on."""


@dataclass(frozen=True, slots=True)
class Hits:
    """The result of a search: which of the wanted codes were found, and their rows, segment by segment."""

    found: Mask
    places: list[tuple[int, Rows]]  # segment, rows inside it


class Run:
    """One run of one store. Holds the index and the marks of verified pages; rows stay in the file."""

    def __init__(self, entry: RunEntry, shape: Shape, index: Index, read: Bytes, verified: Marks) -> None:
        self.entry, self.shape, self.index = entry, shape, index
        self.firsts: pa.Array = whole(index.pages.column("first"))
        self.lasts: pa.Array = whole(index.pages.column("last"))
        self.starts: Rows = np.cumsum([0, *[segment.rows for segment in index.segments]], dtype=np.int64)
        self._read, self._schema = read, shape.stored(entry.is_overlay)
        self._crc32: npt.NDArray[np.uint32] = index.pages.column("crc32").to_numpy()
        self._first_pages: Rows = np.array([segment.first_page for segment in index.segments], np.int64)
        self._opened: dict[int, tuple[pa.RecordBatch, pa.Array, Checksums]] = {}
        self._verified = verified

    # --- pages

    def pages_of(self, wanted: pa.Array) -> Rows:
        """The page that would hold each code; -1 before the first."""
        return key_codec.search(self.firsts, wanted, "right") - 1

    def may_hold(self, wanted: pa.Array) -> Mask:
        """Which sorted codes lie inside the fences of a page; the others are not in this run."""
        return self._fenced(wanted)[0]

    def _fenced(self, wanted: pa.Array) -> tuple[Mask, Rows]:
        """Which sorted codes lie inside the fences of a page, and their pages."""
        if len(self.firsts) < len(wanted):  # cheaper to search the fences among the codes
            return key_codec.inside(wanted, self.firsts, self.lasts)
        if not len(self.firsts):
            return np.zeros(len(wanted), np.bool_), np.zeros(0, np.int64)
        pages = self.pages_of(wanted)
        inside = (pages >= 0) & key_codec.at_most(wanted, key_codec.take(self.lasts, np.maximum(pages, 0)))
        return inside, pages if inside.all() else pages[inside]

    def verify(self, pages: Rows) -> None:
        """Verify pages that are not marked yet. Raises `PageDamaged`."""
        for page in pages[~self._verified[pages]].tolist():
            self._verify_page(page)

    def _verify_page(self, page: int) -> None:
        number = self._segment_of_page(page)
        segment, (batch, _, checksums) = self.index.segments[number], self.segment(number)
        start = (page - segment.first_page) * self.index.page_rows
        if checksums.of(start, min(batch.num_rows, start + self.index.page_rows)) != self._crc32[page]:
            raise PageDamaged(self.shape.store, self.entry.name, page)
        self._verified[page] = True

    def _segment_of_page(self, page: int) -> int:
        return int(np.searchsorted(self._first_pages, page, "right")) - 1

    def pages_in(self, segment: int) -> Rows:
        """The pages of a segment."""
        part = self.index.segments[segment]
        return np.arange(part.first_page, part.first_page + -(-part.rows // self.index.page_rows))

    def segment(self, number: int) -> tuple[pa.RecordBatch, pa.Array, Checksums]:
        """A segment's rows, codes and checksums; does not verify pages."""
        if number not in self._opened:
            self._opened[number] = self._open_segment(number)
        return self._opened[number]

    def _open_segment(self, number: int) -> tuple[pa.RecordBatch, pa.Array, Checksums]:
        place = self.index.segments[number]
        message = self._read(place.offset, place.bytes)
        if layout.checksum(message.slice(0, place.header_bytes)) != place.header_crc32:
            raise RunDamaged(self.shape.store, self.entry.name, f"header of segment {number}")
        batch = pa.ipc.read_record_batch(message, self._schema)
        return batch, self.shape.codes(pa.Table.from_batches([batch])), Checksums(batch)

    # --- rows

    def find(self, wanted: pa.Array) -> Hits:
        """Find distinct sorted codes."""
        possible, pages = self._fenced(wanted)
        narrowed = wanted if len(pages) == len(wanted) else wanted.filter(pa.array(possible))
        bounds = [*np.searchsorted(pages, self._first_pages).tolist(), len(pages)]
        parts = [(number, start, stop) for number, (start, stop) in enumerate(pairwise(bounds)) if start < stop]
        guess = key_codec.counted_up(narrowed, self.firsts, self.lasts, pages, self.index.page_rows)

        def searched(part: tuple[int, int, int]) -> tuple[Mask, Rows]:
            number, start, stop = part
            few = narrowed.slice(start, stop - start)
            rows = self._search(number, few, pages[start:stop], None if guess is None else guess[start:stop])
            hit = key_codec.equal(key_codec.take(self.segment(number)[1], rows), few)
            return hit, rows[hit]

        answers = parallel_map(searched, parts, lambda part: part[2] - part[1])
        found = np.zeros(len(wanted), np.bool_)
        found[possible] = np.concatenate([np.zeros(0, np.bool_), *(hit for hit, _ in answers)])
        return Hits(found, [(part[0], rows) for part, (_, rows) in zip(parts, answers, strict=True)])

    def _search(self, number: int, wanted: pa.Array, pages: Rows, guess: Rows | None) -> Rows:
        """The insertion positions of codes in a segment; only `pages` may hold them."""
        self.verify(pages[key_codec.firsts_of(pages)])
        first = (pages - self._first_pages[number]) * self.index.page_rows
        rows = key_codec.search_near(self.segment(number)[1], wanted, first, self.index.page_rows, guess)
        if not np.array_equal(rows // self.index.page_rows, pages - self._first_pages[number]):
            self.verify(self.pages_in(number))  # misled by a key in another page
            raise RunDamaged(self.shape.store, self.entry.name, f"keys of segment {number} are out of order")
        return rows

    def row_of(self, code: pa.Array) -> int:
        """The number of rows before a code (an array of one)."""
        page = int(self.pages_of(code)[0])
        if page < 0:
            return 0
        number = self._segment_of_page(page)
        start = (page - self.index.segments[number].first_page) * self.index.page_rows
        self.verify(np.array([page]))
        keys = self.segment(number)[1].slice(start, self.index.page_rows)
        return int(self.starts[number]) + start + int(key_codec.search(keys, code)[0])

    def slices(self, start: int, stop: int) -> Iterator[pa.Table]:
        """Verified rows `start` … `stop - 1`, as slices of the mapped file."""
        first = int(np.searchsorted(self.starts, start, "right")) - 1
        while start < stop:
            origin, end = int(self.starts[first]), min(stop, int(self.starts[first + 1]))
            pages = self.pages_in(first)
            size = self.index.page_rows
            self.verify(pages[(start - origin) // size : -(-(end - origin) // size)])
            yield pa.Table.from_batches([self.segment(first)[0]]).slice(start - origin, end - start)
            start, first = end, first + 1

    def gather(self, hits: Hits, columns: list[str]) -> pa.Table:
        """The rows of a search result."""

        def taken(place: tuple[int, Rows]) -> pa.RecordBatch:
            number, rows = place
            wide = self.segment(number)[0].select(columns)
            return pc.take(wide, pa.array(rows), boundscheck=False)  # in bounds: the rows come from a search

        parts = parallel_map(taken, hits.places, lambda place: len(place[1]))
        schema = pa.schema([self._schema.field(name) for name in columns])
        return pa.Table.from_batches(parts, schema)


def open_run(runs: Path, entry: RunEntry, shape: Shape, *, random_access: bool = False) -> Run:
    """Map a run. File sizes and the index are checked here, pages when they are read."""
    path = data_file(runs, entry.name)
    index = _load_index(runs, entry, shape)
    _check_size(path, entry.bytes, shape)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    if random_access:
        mapped.madvise(mmap.MADV_RANDOM)
    return Run(entry, shape, index, pa.py_buffer(mapped).slice, marks_of(path, entry.pages))


def check_run(runs: Path, entry: RunEntry, shape: Shape) -> None:
    """Read a whole run back and check checksums, order and counts. Plain reads: memory is one segment."""
    path = data_file(runs, entry.name)
    index = _load_index(runs, entry, shape)
    _check_size(path, entry.bytes, shape)
    with path.open("rb") as file:
        none = np.zeros(entry.pages, np.bool_)
        run = Run(entry, shape, index, lambda at, size: pa.py_buffer(os.pread(file.fileno(), size, at)), none)
        last: pa.Array | None = None
        for number in range(len(index.segments)):
            run.verify(run.pages_in(number))
            keys = run.segment(number)[1]
            run._opened.clear()
            joined = keys if last is None else key_codec.concat([last, keys])
            if keys.null_count or key_codec.first_not_rising(joined) is not None:
                raise RunDamaged(shape.store, entry.name, f"keys of segment {number} do not rise")
            last = key_codec.take(keys, np.array([len(keys) - 1]))
    if (int(run.starts[-1]), len(run.firsts)) != (entry.rows, entry.pages):
        raise RunDamaged(shape.store, entry.name, f"{int(run.starts[-1])} rows instead of {entry.rows}")
    mark_all(path, entry.pages)


def _load_index(runs: Path, entry: RunEntry, shape: Shape) -> Index:
    path = index_file(runs, entry.name)
    _check_size(path, entry.index_bytes, shape)
    data = path.read_bytes()
    if layout.checksum(data) != entry.index_crc32:
        raise RunDamaged(shape.store, entry.name, "wrong checksum of its index")
    return Index.of_bytes(data)


def _check_size(path: Path, expected: int, shape: Shape) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise RunMissing(shape.store, path.name) from None
    if found != expected:
        raise RunTruncated(shape.store, path.name, found, expected)
