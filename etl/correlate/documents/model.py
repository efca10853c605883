"""Documents as sets of attribute-value pairs, and the pairs of documents that join.

    document    0        1     2
    offsets     0        3     5         8
    pairs       4  1  0  4  2  7  1  0             codes of one dictionary, each attribute at most once per document

Two documents join if they share at least one pair and no attribute has different values in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.correlate.documents.dictionary import I32, I64, SEPARATOR, Dictionary, json_of, path_of
from etl.correlate.documents.errors import UnlikeDictionaries

_SCHEMA = pa.schema([("id", pa.int64()), ("pairs", pa.list_(pa.string()))])


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents in the order of the stream. Join results refer to `ids`, which are ascending."""

    ids: I64
    offsets: I64
    pairs: I32
    dictionary: Dictionary

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def attributes(self) -> I32:
        """The attribute of every entry of `pairs`."""
        return self.dictionary.pair_attribute[self.pairs]

    @property
    def lengths(self) -> I64:
        return np.diff(self.offsets)

    @property
    def owners(self) -> I64:
        """The document, by position, of every entry of `pairs`."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def take(self, positions: I64) -> Documents:
        """The documents at these positions."""
        lengths = self.lengths[positions]
        offsets = _offsets(lengths)
        source = np.repeat(self.offsets[positions] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Documents(self.ids[positions], offsets, self.pairs[source], self.dictionary)

    def without(self, attributes: I32) -> Documents:
        """The same documents without these attributes."""
        keep = ~np.isin(self.attributes, attributes)
        lengths = np.bincount(self.owners[keep], minlength=len(self))
        return Documents(self.ids, _offsets(lengths), self.pairs[keep], self.dictionary)

    def keys(self, position: int) -> list[str]:
        """The keys of one document's pairs."""
        codes = self.pairs[self.offsets[position] : self.offsets[position + 1]]
        return [self.dictionary.keys[code] for code in codes.tolist()]

    def to_arrow(self) -> pa.RecordBatch:
        """Documents for sending between tasks: pairs by their keys."""
        used, codes = np.unique(self.pairs, return_inverse=True)
        keys = pa.array([self.dictionary.keys[code] for code in used.tolist()], pa.string())
        lists = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), keys.take(pa.array(codes)))
        return pa.record_batch([pa.array(self.ids), lists], schema=_SCHEMA)

    @staticmethod
    def from_arrow(batch: pa.RecordBatch, dictionary: Dictionary) -> Documents:
        """The inverse of `to_arrow`, in the codes of `dictionary`."""
        lists = batch.column("pairs")
        encoded = lists.flatten().dictionary_encode()
        codes = dictionary.codes(encoded.dictionary.to_pylist())
        lengths = np.diff(lists.offsets.to_numpy())
        pairs = codes[encoded.indices.to_numpy()] if len(codes) else np.empty(0, np.int32)
        return Documents(batch.column("id").to_numpy(), _offsets(lengths), pairs, dictionary)


def concat(parts: Sequence[Documents]) -> Documents:
    """Concatenate documents."""
    first = parts[0]
    if any(part.dictionary is not first.dictionary for part in parts):
        raise UnlikeDictionaries
    lengths = np.concatenate([part.lengths for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    return Documents(ids, _offsets(lengths), np.concatenate([part.pairs for part in parts]), first.dictionary)


def documents_of(rows: Sequence[Mapping[str, str]], dictionary: Dictionary | None = None) -> Documents:
    """Flat documents of text values; for examples and tests."""
    known = Dictionary() if dictionary is None else dictionary
    keys = [f"{path}{SEPARATOR}s{value}" for row in rows for path, value in row.items()]
    lengths = np.array([len(row) for row in rows], np.int64)
    return Documents(np.arange(len(rows), dtype=np.int64), _offsets(lengths), known.codes(keys), known)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of joining documents, by id: `left` came before `right`; no duplicates."""

    left: I64
    right: I64

    def __len__(self) -> int:
        return len(self.left)

    def sorted(self) -> Pairs:
        """By the later, then by the earlier document."""
        order = np.lexsort((self.left, self.right))
        return Pairs(self.left[order], self.right[order])

    @staticmethod
    def none() -> Pairs:
        return Pairs(np.empty(0, np.int64), np.empty(0, np.int64))

    @staticmethod
    def concat(parts: Sequence[Pairs]) -> Pairs:
        some = [part for part in parts if len(part)]
        if len(some) < 2:  # nothing to copy
            return some[0] if some else Pairs.none()
        return Pairs(np.concatenate([part.left for part in some]), np.concatenate([part.right for part in some]))


def merged(documents: Documents, pairs: Pairs) -> pa.StringArray:
    """The natural join of every pair, as one flat JSON object each: every path with its value.

    The ids of `documents` are ascending, and include those of the pairs.
    """
    keys, spans, codes = documents.dictionary.keys, documents.offsets.tolist(), documents.pairs.tolist()
    members = {
        code: f"{json.dumps(path_of(keys[code]), ensure_ascii=False)}: {json_of(keys[code])}" for code in set(codes)
    }
    left, right = (np.searchsorted(documents.ids, side).tolist() for side in (pairs.left, pairs.right))
    return pa.array(
        [
            "{" + ", ".join([members[code] for code in dict.fromkeys(
                codes[spans[one] : spans[one + 1]] + codes[spans[other] : spans[other + 1]]
            )]) + "}"
            for one, other in zip(left, right, strict=True)
        ],
        pa.string(),
    )  # fmt: skip


def _offsets(lengths: I64) -> I64:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
