"""Documents in the shape of NoBench, the benchmark of document stores, without its unique `num`.

Every object has `str1`, `str2`, `bool`, `dyn1` and `dyn2` (whose type varies), `thousandth`, `nested_obj` and
`nested_arr`, and ten of a thousand sparse attributes, all from one cluster of ten. Attributes follow from a number
that the objects draw with replacement, so objects recur: those with one number agree in all but the length of
`nested_arr`, and join. Two numbers differ in `str1`, which every object has, and never join, however much else they
share.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import orjson

_WORDS = ("alpha", "bravo", "delta", "echo", "golf", "hotel", "india", "kilo", "lima", "mike", "oscar", "papa", "tango")
_CLUSTERS = 100
_STRIDE = 2_654_435_761  # spreads consecutive numbers over a domain


def nobench(count: int, *, seed: int, objects: int | None = None, drift: float = 0.0) -> Iterator[bytes]:
    """Lines of JSON. `objects` numbers to draw from; with `drift` the range moves by so many numbers per document."""
    domain = max(1, count // 4) if objects is None else objects
    draw = np.random.default_rng(seed)
    numbers = draw.integers(0, domain, count) + (np.arange(count) * drift).astype(np.int64)
    lengths = draw.integers(0, 8, count)
    for number, length in zip(numbers.tolist(), lengths.tolist(), strict=True):
        yield orjson.dumps(document(number, length))


def document(number: int, words: int) -> dict[str, object]:
    """The object of a number, with so many words in its array."""
    spread = number * _STRIDE % 2**32
    cluster = spread % _CLUSTERS * 10
    value: dict[str, object] = {
        "str1": _text(number),
        "str2": _text(number % 5_000),
        "bool": number % 2 == 0,
        "dyn1": number if number % 20 else _text(number),
        "dyn2": (number % 100, _text(number % 100), number % 3 == 0)[spread % 3],
        "nested_arr": [_WORDS[(spread >> word) % len(_WORDS)] for word in range(words)],
        "nested_obj": {"str": _text(number // 10), "num": number // 10},
        "thousandth": number % 1000,
    }
    for sparse in range(cluster, cluster + 10):
        value[f"sparse_{sparse:03d}"] = _text((spread + sparse) % 10_000)
    return value


@lru_cache(maxsize=1 << 16)
def _text(number: int) -> str:
    """A number as base-32 text, as NoBench writes strings."""
    return base64.b32encode(number.to_bytes(5, "big")).decode()
