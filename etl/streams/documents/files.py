"""Files of a correlation of documents: written once, sealed, memory-mapped.

    documents     one record batch per slot (id, time, masks, pairs), then the keys that `pairs` count
    partitions    hashes with their masks, then loads; routing and count are in the schema's metadata
    sightings     hashes with counts

A run `FILE#2` is the third slot of a file. Codes of pairs are local to their file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from etl.correlate.documents.dictionary import I32, I64, U64, Dictionary
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.assigner import Sightings
from etl.correlate.documents.partitioning.partitions import NO_PLACES, Partitions, Places, words
from etl.streams.documents.state import DOCUMENTS, PARTITIONS, SIGHTINGS, routing_of
from etl.streams.state.state_files import StateRun
from etl.streams.storage.files import FileDamaged, FileStore
from etl.streams.storage.log import from_ipc, to_ipc


@dataclass(frozen=True, slots=True)
class Assigned:
    """Documents with their event times and target partitions."""

    documents: Documents
    times: I64
    masks: U64

    def take(self, positions: I64) -> Assigned:
        return Assigned(self.documents.take(positions), self.times[positions], self.masks[positions])


def write_documents(store: FileStore, name: str, slots: dict[int, Assigned], version: int) -> tuple[StateRun, ...]:
    """Write one file with all slots of a dispatcher's documents."""
    parts, runs = [], []
    used = np.unique(np.concatenate([one.documents.pairs for one in slots.values()]))
    for number, (slot, one) in enumerate(sorted(slots.items())):
        batch = _document_batch(one, used)
        parts.append(batch)
        earliest, latest = int(one.times.min()), int(one.times.max())
        shape = len(one.times), batch.nbytes, earliest, latest
        runs.append(StateRun(DOCUMENTS, version, "left", slot, f"{name}#{number}", *shape))
    keys = next(iter(slots.values())).documents.dictionary.keys
    parts.append(pa.record_batch({"key": pa.array([keys[code] for code in used.tolist()], pa.string())}))
    store.write(name, to_ipc(parts))
    return tuple(runs)


def _document_batch(one: Assigned, used: I32) -> pa.RecordBatch:
    documents = one.documents
    pairs = pa.ListArray.from_arrays(
        pa.array(documents.offsets, pa.int32()), pa.array(np.searchsorted(used, documents.pairs).astype(np.int32))
    )
    columns = {"id": pa.array(documents.ids), "time": pa.array(one.times), "masks": _rows(one.masks), "pairs": pairs}
    return pa.record_batch(columns)


def _rows(masks: U64) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(masks).reshape(-1)), masks.shape[1])


def _words(column: pa.FixedSizeListArray) -> U64:
    width = column.type.list_size
    values: U64 = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return values


class DocumentReader:
    """Reads documents of files into the codes of one dictionary; a file's keys are looked up once."""

    def __init__(self, store: FileStore) -> None:
        self._store, self._dictionary = store, Dictionary()
        self._codes: dict[str, I32] = {}

    def read(self, run: StateRun) -> Assigned:
        """The documents of one run."""
        parts = self._store.open(run.file, from_ipc)
        number = int(run.name.partition("#")[2])
        if number >= len(parts) - 1 or parts[number].num_rows != run.tuples:
            raise FileDamaged(run.file, "holds other documents than those that were decided")
        batch = parts[number]
        lists = batch.column("pairs")
        offsets = lists.offsets.to_numpy().astype(np.int64)
        pairs = self._coded(run.file, parts[-1].column("key"), lists.values.to_numpy()[offsets[0] : offsets[-1]])
        documents = Documents(batch.column("id").to_numpy(), offsets - offsets[0], pairs, self._dictionary)
        return Assigned(documents, batch.column("time").to_numpy(), _words(batch.column("masks")))

    def _coded(self, file: str, keys: pa.StringArray, local: I32) -> I32:
        """Translate a file's codes to the dictionary's; only keys that occur here are looked up."""
        known = self._codes.setdefault(file, np.full(len(keys), -1, np.int32))
        used = np.unique(local)
        fresh = used[known[used] < 0]
        known[fresh] = self._dictionary.codes(keys.take(pa.array(fresh)).to_pylist())
        coded: I32 = known[local]
        return coded

    def together(self, parts: list[Assigned]) -> Assigned:
        """Concatenate the documents of several runs, by id; masks of fewer partitions are widened."""
        lengths = np.concatenate([np.zeros(0, np.int64), *(one.documents.lengths for one in parts)])
        ids = np.concatenate([np.zeros(0, np.int64), *(one.documents.ids for one in parts)])
        pairs = np.concatenate([np.zeros(0, np.int32), *(one.documents.pairs for one in parts)])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        width = max((one.masks.shape[1] for one in parts), default=1)
        masks = np.concatenate([np.zeros((0, width), np.uint64), *(_widened(one.masks, width) for one in parts)])
        times = np.concatenate([np.zeros(0, np.int64), *(one.times for one in parts)])
        whole = Assigned(Documents(ids, offsets, pairs, self._dictionary), times, masks)
        return whole.take(np.argsort(ids, kind="stable"))


def _widened(masks: U64, width: int) -> U64:
    wide = np.zeros((len(masks), width), np.uint64)
    wide[:, : masks.shape[1]] = masks
    return wide


def write_partitions(store: FileStore, name: str, version: int, partitions: Partitions) -> StateRun:
    """One version of the partitions."""
    routing = {**asdict(partitions.routing), "count": partitions.count}
    table = pa.record_batch({"hash": pa.array(partitions.hashes), "masks": _rows(partitions.masks)})
    table = table.replace_schema_metadata({"partitions": json.dumps(routing)})
    places = pa.record_batch({"hash": pa.array(partitions.places.hashes), "masks": _rows(partitions.places.masks)})
    size = store.write(name, to_ipc([table, pa.record_batch({"load": pa.array(partitions.loads)}), places]))
    return StateRun(PARTITIONS, 0, "left", version, f"{name}#0", len(partitions.hashes), size, 0, 0)


def open_partitions(store: FileStore, run: StateRun) -> Partitions:
    """The partitions that the ledger names."""
    return store.open(run.file, _partitions)


def _partitions(content: pa.Buffer, name: str) -> Partitions:
    parts = from_ipc(content, name)
    if len(parts) not in (2, 3):  # files of older releases have no places
        raise FileDamaged(name, "is not a file of partitions")
    table, loads = parts[:2]
    said = json.loads(table.schema.metadata[b"partitions"])
    places = Places(*_by_hash(parts[2], said["count"])) if len(parts) == 3 else NO_PLACES
    hashes, masks = _by_hash(table, said["count"])
    return Partitions(routing_of(said), said["count"], hashes, masks, loads.column("load").to_numpy(), places)


def _by_hash(table: pa.RecordBatch, count: int) -> tuple[U64, U64]:
    hashes = table.column("hash").to_numpy()
    return hashes, _words(table.column("masks")) if len(hashes) else np.zeros((0, words(count)), np.uint64)


def write_sightings(store: FileStore, name: str, sightings: Sightings) -> StateRun:
    hashes = np.array(list(sightings.counts), np.uint64)
    counts = np.array(list(sightings.counts.values()), np.int64)
    size = store.write(name, to_ipc([pa.record_batch({"hash": pa.array(hashes), "count": pa.array(counts)})]))
    return StateRun(SIGHTINGS, 0, "left", 0, f"{name}#0", len(hashes), size, 0, 0)


def open_sightings(store: FileStore, run: StateRun | None, delta: int) -> Sightings:
    """Read a mutable copy."""
    if run is None:
        return Sightings(delta)
    (table,) = store.open(run.file, from_ipc)
    return Sightings(delta, dict(zip(table.column("hash").to_pylist(), table.column("count").to_pylist(), strict=True)))
