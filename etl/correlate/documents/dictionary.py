"""Attributes and attribute-value pairs as integers, for the length of a window.

    {"user": "A", "ip": {"port": 22}}   ──►   user    "A"   pair 0 of attribute 0
                                              ip.port 22    pair 1 of attribute 1

A pair's *key* is its path, a NUL, one letter for the type, and the value's text: `user\\0sA`, `ip.port\\0n22`.
Documents with a NUL are quarantined, so a key can be taken apart again. Keys are equal if and only if attribute, type
and value are.

A pair's *code* counts up in the order of first occurrence and is local to this dictionary. Its
*hash* is a function of the key alone, so tasks and windows that share no dictionary agree on it. Routing goes by
hashes (two pairs with one hash would merely travel together); joining goes by codes, which are exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import allocating_kernel as kernel

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

SEPARATOR = "\0"
_FNV_BASIS, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class Dictionary:
    """Grows while documents are encoded; assigned codes never change."""

    def __init__(self) -> None:
        self.attributes: list[str] = []
        self.keys: list[str] = []
        self._attribute_codes: dict[str, int] = {}
        self._key_codes: dict[str, int] | None = None  # built lazily, for codes by key
        self._pair_attributes: list[int] = []
        self._attribute_array = np.empty(0, np.int32)
        self._hashes = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self.keys)

    def attribute(self, path: str) -> int:
        """The code of an attribute, added if new."""
        code = self._attribute_codes.setdefault(path, len(self.attributes))
        if code == len(self.attributes):
            self.attributes.append(path)
        return code

    def known_attribute(self, path: str) -> int:
        """The code of an attribute, -1 if unknown."""
        return self._attribute_codes.get(path, -1)

    def add(self, attribute: int, key: str) -> int:
        """A code for a pair that is known to be new."""
        code = len(self.keys)
        self.keys.append(key)
        self._pair_attributes.append(attribute)
        if self._key_codes is not None:
            self._key_codes[key] = code
        return code

    def code(self, key: str) -> int:
        """The code of a pair by its key, added if new."""
        if self._key_codes is None:
            self._key_codes = {known: code for code, known in enumerate(self.keys)}
        found = self._key_codes.get(key)
        return self.add(self.attribute(path_of(key)), key) if found is None else found

    def codes(self, keys: Iterable[str]) -> I32:
        """`code` of many keys."""
        return np.fromiter((self.code(key) for key in keys), np.int32)

    @property
    def pair_attribute(self) -> I32:
        """The attribute of every pair."""
        known = len(self._attribute_array)
        if known < len(self.keys):
            fresh = np.array(self._pair_attributes[known:], np.int32)
            self._attribute_array = np.concatenate([self._attribute_array, fresh])
        return self._attribute_array

    @property
    def hashes(self) -> U64:
        """The hash of every pair."""
        known = len(self._hashes)
        if known < len(self.keys):
            self._hashes = np.concatenate([self._hashes, stable_hashes(self.keys[known:])])
        return self._hashes


def path_of(key: str) -> str:
    """The attribute in a pair's key."""
    return key.partition(SEPARATOR)[0]


def json_of(key: str) -> str:
    """The value in a pair's key, as JSON text."""
    typed = key.partition(SEPARATOR)[2]
    return json.dumps(typed[1:], ensure_ascii=False) if typed[0] == "s" else typed[1:]


def stable_hashes(keys: Sequence[str]) -> U64:
    """64-bit FNV-1a of every key's UTF-8, mixed once more: the same in every process and on every machine."""
    encoded = [key.encode() for key in keys]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    return _hash_all(np.frombuffer(b"".join(encoded), np.uint8), ends)


@kernel
def _hash_all(data: U8, ends: I64) -> U64:
    hashes = np.empty(len(ends), np.uint64)
    start = 0
    for item in range(len(ends)):
        state = _FNV_BASIS
        for position in range(start, ends[item]):
            state = (state ^ np.uint64(data[position])) * _FNV_PRIME
        state ^= state >> np.uint64(32)
        state *= np.uint64(0x9E3779B97F4A7C15)
        hashes[item] = state ^ (state >> np.uint64(29))
        start = ends[item]
    return hashes
