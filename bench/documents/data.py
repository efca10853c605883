"""The two data sets: NoBench (nbData) and server logs (rwData). One minute of stream is a thousand documents here."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from etl.correlate.documents.flatten import DocumentEncoder, FlattenOptions
from etl.correlate.documents.model import Documents
from etl.samples.documents.nobench import nobench
from etl.samples.documents.server_logs import server_logs

SETS = ("nbData", "rwData")
MINUTE = 1_000
_IGNORE = FlattenOptions(ignore=frozenset({"time"}))


def window_stream(name: str, count: int) -> Documents:
    """One long stream for the figures about partitions: each window brings pairs that none before had."""
    lines = (
        nobench(count, seed=11, objects=9_000, drift=0.2) if name == "nbData" else server_logs(count, seed=11, users=60)
    )
    return encode(lines)


def join_input(name: str, count: int, number: int = 0) -> Documents:
    """Documents for one local join; objects and users grow with how many there are. Each `number` is another stream."""
    seed = 12 + number
    return encode(nobench(count, seed=seed) if name == "nbData" else server_logs(count, seed=seed))


def encode(lines: Iterable[bytes]) -> Documents:
    """Lines as documents; none of them is rejected."""
    read = list(lines)
    encoded = DocumentEncoder(_IGNORE).encode(read, np.arange(len(read), dtype=np.int64))
    assert not encoded.rejected, "the generators make documents"
    return encoded.documents


def windows(stream: Documents, minutes: int, count: int, minute: int = MINUTE) -> list[Documents]:
    """The first windows of a stream."""
    size = minutes * minute
    return [stream.take(np.arange(place * size, (place + 1) * size)) for place in range(count)]


def ideal_windows(
    stream: Documents, minutes: int, count: int, minute: int = MINUTE, new_share: float = 0.01
) -> list[Documents]:
    """Figure 10: one window again and again, with a few documents that were not there before."""
    size = minutes * minute
    new = int(size * new_share)
    fresh = np.arange(size, size + count * new).reshape(count, new)
    return [stream.take(np.concatenate([np.arange(size - new), fresh[place]])) for place in range(count)]
