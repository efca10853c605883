"""Parse one line of a stream to one JSON object, or to the reason for refusing it.

    bytes ─ orjson ─► object ─ nothing doubtful? ─► accepted                       the fast path, nearly always
                 └─ error, or doubtful ─► `parse_strictly` (the standard library, with hooks) ─► accepted | reason

`parse_strictly` is the definition; the fast path accepts only lines for which the result is provably the same. orjson
keeps the last of two equal keys and turns integers beyond 64 bits into floats. So a line is doubtful when - more colons
could separate a key from its value than there are keys in the result (a key may be duplicate), - a float is as large as
an integer beyond 64 bits would be, - it has an escape that may be a NUL. Counting keys and checking floats is left to
the code that walks the object anyway (`flatten.py`), through `separators`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

Reason = Literal[
    "not_utf8", "not_json", "not_an_object", "duplicate_key", "too_deep", "too_large", "too_many_pairs",
    "not_a_number", "number_out_of_range", "nul_character", "unpaired_surrogate",
]  # fmt: skip
Json = Any  # what a JSON text can hold: dict, list, str, int, float, bool, None

LEAST_INTEGER, BEYOND_INTEGERS = -(2**63), 2**64
_LONGEST_INTEGER = 21  # digits and sign of what may still be a 64-bit integer


class Refused(Exception):
    """A line is not a document that can be joined."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


def separators(line: bytes) -> int:
    """The number of colons that may separate a key from its value: an upper bound of the number of keys."""
    count = line.count(b'":')
    # A separator follows its key's quote, directly or after white space.
    return count + line.count(b" :") + line.count(b"\t:") + line.count(b"\n:") + line.count(b"\r:")


def parse_strictly(line: bytes) -> dict[str, Json]:
    """Parse a line by the standard library; raises `Refused` with the reason."""
    if b"\0" in line:
        raise Refused("nul_character")
    try:
        parsed = _DECODER.decode(line.decode())
    except UnicodeDecodeError:
        raise Refused("not_utf8") from None
    except RecursionError:
        raise Refused("too_deep") from None
    except json.JSONDecodeError:
        raise Refused("not_json") from None
    if not isinstance(parsed, dict):
        raise Refused("not_an_object")
    if b"\\u" in line:
        _check_text(parsed)
    return parsed


def _check_text(parsed: dict[str, Json]) -> None:
    for text in _texts(parsed):
        if "\0" in text:
            raise Refused("nul_character")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refused("unpaired_surrogate") from None


def _texts(value: Json) -> Iterator[str]:
    """Every key and every text, to any depth."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _unique(members: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(members)
    if len(result) < len(members):
        raise Refused("duplicate_key")
    return result


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or not LEAST_INTEGER <= (number := int(text)) < BEYOND_INTEGERS:
        raise Refused("number_out_of_range")
    return number


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise Refused("number_out_of_range")
    return number


def _constant(_: str) -> float:
    raise Refused("not_a_number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_constant)
