"""The index of claimed keys and their payload hashes: sorted, immutable runs that every task memory-maps.

    batch ──▶ a run: keys with payload hash, batch and state, sorted, immutable      (named by the batch's decision)
    find  ──▶ newest run first, two binary searches for all keys at once             cost depends on the batch's size
    merge ──▶ runs of one size become one, so a lookup visits few                     after the batch, never inside it

A run becomes part of the index when the ledger commits the decision that names it; until then it is garbage. The newest
run that has a key wins: in state `accepted`, `waiting` or `unknown` (accepted with an unknown member, to be corrected)
the key is claimed, in state `released` it is free again. See ADR 23.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.adapters.durable import write_durably
from etl.columnar.keys import I64, U64, Keys, mix
from etl.errors import TerminalError

FREE, ACCEPTED, WAITING, RELEASED, UNKNOWN = 0, 1, 2, 3, 4
U8 = npt.NDArray[np.uint8]
_CHECKED_BYTES = 32 * 2**20  # larger runs are verified when they are merged
FAN_IN = 8


class ClaimsDamaged(TerminalError):
    """A run's checksum does not match."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"the claims in {self.path} are damaged or missing, so duplicates could not be told; "
            "restore the file or rebuild all claims with `frontstage audit --rebuild-claims`"
        )


@dataclass(frozen=True, slots=True)
class ClaimRun:
    """One run as the ledger names it. `path` is relative to the folder of claims."""

    path: str
    entries: int
    crc32: int
    batch: int  # the newest batch inside: runs are searched from the highest to the lowest


@dataclass(frozen=True, slots=True)
class Claims:
    """Keys and their claims, in any order."""

    lo: U64
    hi: U64
    payload: I64
    batch: I64
    state: U8

    def __len__(self) -> int:
        return len(self.lo)

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Claims:
        return Claims(self.lo[rows], self.hi[rows], self.payload[rows], self.batch[rows], self.state[rows])

    @classmethod
    def concat(cls, parts: Sequence[Claims]) -> Claims:
        arrays = zip(*[(one.lo, one.hi, one.payload, one.batch, one.state) for one in parts], strict=True)
        return cls(*(np.concatenate(column) for column in arrays))


def lanes(keys: Keys) -> tuple[U64, U64]:
    """Both lanes of keys; a key of one lane has zeros in the other."""
    return keys.lo, np.zeros(len(keys), np.uint64) if keys.hi is None else keys.hi


def _rank(lo: U64, hi: U64) -> U64:
    """The sort key of runs: numbers unchanged (new keys are neighbours), anything else hashed. mix(0) is 0."""
    return lo ^ mix(hi)


def write_run(folder: Path, name: str, claims: Claims) -> ClaimRun:
    """Write claims with distinct keys as a run, synced to disk."""
    order = np.argsort(_rank(claims.lo, claims.hi), kind="stable")
    ordered = claims.take(order)
    table = pa.table(
        {
            "rank": _rank(ordered.lo, ordered.hi),
            "lo": ordered.lo,
            "hi": ordered.hi,
            "payload": ordered.payload,
            "batch": ordered.batch,
            "state": ordered.state,
        }
    ).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    write_durably(folder / name, content)
    newest = int(claims.batch.max(initial=0))
    return ClaimRun(name, len(claims), zlib.crc32(content), newest)


@dataclass(frozen=True, slots=True)
class _Mapped:
    rank: U64
    claims: Claims


class ClaimIndex:
    """All runs of a pipeline, mapped. `find` answers for many keys at once."""

    def __init__(self, folder: Path, runs: Sequence[ClaimRun], before: ClaimIndex | None = None) -> None:
        """`before`: an earlier index of the same folder, whose open runs are reused."""
        known: dict[ClaimRun, _Mapped] = {} if before is None else before._mapped
        self._mapped: dict[ClaimRun, _Mapped] = {
            run: known[run] if run in known else _open(folder, run) for run in runs
        }
        self._runs = [self._mapped[run] for run in sorted(runs, key=lambda run: run.batch, reverse=True)]

    def find(self, lo: U64, hi: U64) -> Claims:
        """The claim of every key; state FREE where there is none."""
        n = len(lo)
        found = Claims(lo, hi, np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.uint8))
        rank = _rank(lo, hi)
        open_rows = np.argsort(rank, kind="stable")  # searching in order keeps pages of the run in the caches
        for run in self._runs:
            if not len(open_rows) or not len(run.rank):
                continue
            inside = (rank[open_rows] >= run.rank[0]) & (rank[open_rows] <= run.rank[-1])
            wanted = open_rows[inside]
            at = _search(run, rank[wanted], lo[wanted], hi[wanted])
            hit, place = wanted[at >= 0], at[at >= 0]
            found.payload[hit] = run.claims.payload[place]
            found.batch[hit] = run.claims.batch[place]
            found.state[hit] = run.claims.state[place]
            open_rows = np.concatenate([open_rows[~inside], wanted[at < 0]])
        found.state[found.state == RELEASED] = FREE
        return found


def _search(run: _Mapped, rank: U64, lo: U64, hi: U64) -> I64:
    at = np.searchsorted(run.rank, rank)
    place = np.full(len(rank), -1, np.int64)
    pending = np.arange(len(rank))
    while len(pending):  # more than one round only where two keys share a rank
        spot = at[pending]
        inside = spot < len(run.rank)
        inside[inside] = run.rank[spot[inside]] == rank[pending[inside]]
        pending, spot = pending[inside], spot[inside]
        same = (run.claims.lo[spot] == lo[pending]) & (run.claims.hi[spot] == hi[pending])
        place[pending[same]] = spot[same]
        pending = pending[~same]
        at[pending] += 1
    return place


def _open(folder: Path, run: ClaimRun) -> _Mapped:
    path = folder / run.path
    try:
        with pa.memory_map(str(path)) as source:
            if source.size() <= _CHECKED_BYTES and zlib.crc32(source.read_buffer()) != run.crc32:
                raise ClaimsDamaged(run.path)
            source.seek(0)
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise ClaimsDamaged(run.path) from error
    if table.num_rows != run.entries:
        raise ClaimsDamaged(run.path)
    return _Mapped(_numpy(table, "rank"), _claims(table))


def _claims(table: pa.Table) -> Claims:
    return Claims(*(_numpy(table, name) for name in ("lo", "hi", "payload", "batch", "state")))


def _numpy(table: pa.Table, name: str) -> npt.NDArray[Any]:
    column = table.column(name)
    values: npt.NDArray[Any] = column.chunk(0).to_numpy() if column.num_chunks else column.to_numpy()
    return values


def verify(folder: Path, run: ClaimRun) -> None:
    """Check a run of any size against its checksum."""
    try:
        if zlib.crc32((folder / run.path).read_bytes()) == run.crc32:
            return
    except OSError:
        pass
    raise ClaimsDamaged(run.path)


def due(runs: Sequence[ClaimRun]) -> tuple[ClaimRun, ...]:
    """Runs to merge now: the newest ones of about one size, once there are enough of them; or none."""
    newest_first = sorted(runs, key=lambda run: run.batch, reverse=True)
    size = 0
    chosen: list[ClaimRun] = []
    for run in newest_first:
        if chosen and run.entries > 2 * size:
            break
        chosen.append(run)
        size += run.entries
    return tuple(chosen) if len(chosen) >= FAN_IN else ()


def merge(folder: Path, runs: Sequence[ClaimRun], name: str, *, complete: bool) -> ClaimRun:
    """Merge runs into one. `complete`: no older run remains, so released keys can be dropped."""
    for run in runs:
        verify(folder, run)
    oldest_first = sorted(runs, key=lambda run: run.batch)
    every = Claims.concat([_open(folder, run).claims for run in oldest_first])
    order = np.lexsort((every.batch, every.hi, every.lo))
    ordered = every.take(order)
    newest = np.ones(len(ordered), bool)
    newest[:-1] = (ordered.lo[1:] != ordered.lo[:-1]) | (ordered.hi[1:] != ordered.hi[:-1])
    if complete:
        newest &= ordered.state != RELEASED
    merged = write_run(folder, name, ordered.take(newest))
    return ClaimRun(merged.path, merged.entries, merged.crc32, max(run.batch for run in runs))
