"""Stateless random numbers: each is a function of (seed, purpose, key).

A generator object would tie a customer's address to how many customers were made before. Here row 7 is the
same whether it is made alone, among a million, or next week. Keys go through a 64-bit mixing permutation
(multiply and xor-shift), which does not depend on the version of NumPy.

Invariant: for one (seed, purpose) different keys give different words, because every step can be undone.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def words(seed: int, purpose: str, keys: Keys) -> NDArray[np.uint64]:
    """One 64-bit word per key."""
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
    salts = np.frombuffer(digest, dtype="<u8")
    mixed = np.atleast_1d(keys).astype(np.uint64) * _GOLDEN
    for salt in salts:
        mixed = _mix(mixed + salt)
    return mixed


def uniform(seed: int, purpose: str, keys: Keys) -> NDArray[np.float64]:
    """One number in [0, 1) per key, with all 53 bits a float holds."""
    return (words(seed, purpose, keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(bound: int, seed: int, purpose: str, keys: Keys) -> Keys:
    """One integer in 0 … bound-1 per key. Bounds are far below 2⁶⁴: the remainder's bias cannot be seen."""
    return (words(seed, purpose, keys) % np.uint64(bound)).astype(np.int64)


def shuffled(count: int, seed: int, purpose: str) -> NDArray[np.int64]:
    """A permutation of 0 … count-1: the order of the keys' words, which are all different."""
    return np.argsort(words(seed, purpose, np.arange(count, dtype=np.int64)))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
