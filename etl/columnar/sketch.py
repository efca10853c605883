"""Counting many keys in little memory: a count-min sketch over whole arrays.

    key ──► one cell in each of three rows; the smallest of the three is the estimate, never below the true count
            (until counts are halved, which makes old popularity fade)

Counters are one byte and saturate at 255: any such key is frequent enough.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from etl.columnar.keys import I64, Keys

_TOP = 255
_HALF = np.uint64(32)


class CountMinSketch:
    """Three rows of one-byte counters, raised conservatively: only as far as the new estimate."""

    BYTES_PER_ROW = 12  # bytes of sketch for each row the front stage can hold
    _SALTS: ClassVar[tuple[np.uint64, ...]] = tuple(
        np.uint64(salt) for salt in (0x9FB21C651E98DF25, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB)
    )

    def __init__(self, width: int) -> None:
        self._width = np.uint64(width)
        self._cells = np.zeros((len(self._SALTS), width), np.uint8)

    @classmethod
    def width_for(cls, rows: int) -> int:
        return max(64, rows * cls.BYTES_PER_ROW // len(cls._SALTS))

    @property
    def nbytes(self) -> int:
        return self._cells.nbytes

    def estimate(self, keys: Keys) -> I64:
        """The estimated count of each key."""
        where = self._where(keys)
        cells = np.stack([row[at] for row, at in zip(self._cells, where, strict=True)])
        return np.asarray(cells.min(axis=0), np.int64)

    def add(self, keys: Keys, counts: npt.NDArray[np.integer]) -> I64:
        """Counts distinct keys and gives their new estimates."""
        total = np.minimum(self.estimate(keys) + counts, _TOP)
        self._lift(keys, total)
        return total

    def raise_to(self, keys: Keys, frequency: npt.NDArray[np.floating]) -> None:
        """Makes sure that no key is estimated below `frequency`."""
        self._lift(keys, np.minimum(frequency, _TOP).astype(np.int64))

    def halve(self, times: int = 1) -> None:
        self._cells >>= times

    def _lift(self, keys: Keys, total: I64) -> None:
        level = total.astype(np.uint8)
        for row, at in zip(self._cells, self._where(keys), strict=True):
            np.maximum.at(row, at, level)

    def _where(self, keys: Keys) -> list[I64]:
        word = keys.lo if keys.hi is None else keys.lo ^ (keys.hi << np.uint64(1))
        mixed = (word ^ (word >> _HALF)) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> _HALF
        return [((((mixed * salt) >> _HALF) * self._width) >> _HALF).astype(np.int64) for salt in self._SALTS]
