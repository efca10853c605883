"""Lines of JSON to documents: objects are flattened to paths, values become pairs of the window's dictionary (ADR 35).

    {"user": "A", "ip": {"port": 22}, "tags": ["x", "y"]}
        user "A"     ip.port 22     tags[0] "x"     tags[1] "y"              arrays="index"
                                    tags ["x","y"]                           arrays="whole"

The rule: a member `b` of an object at `a` is at `a.b`; item i of an array at `a` is at `a[i]`. In a name, `\\`, `.` and
`[` are written with a `\\` before them, so different places never share a path. A value's type is part of it: `1`,
`"1"` and `true` are three values; `1`, `1.0` and `1e0` are one number. An empty object or array is a value of its own.
Null is by default no value: it neither joins nor conflicts.

A value costs one lookup: known paths form a tree of dictionaries, with codes by value in the leaves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import orjson

from etl.correlate.documents.dictionary import I64, SEPARATOR, Dictionary
from etl.correlate.documents.errors import InvalidOption
from etl.correlate.documents.model import Documents
from etl.correlate.documents.parse import (
    BEYOND_INTEGERS,
    LEAST_INTEGER,
    Json,
    Reason,
    Refused,
    parse_strictly,
    separators,
)

_SPECIAL = str.maketrans({"\\": "\\\\", ".": "\\.", "[": "\\["})
_TRUE, _FALSE, _NULL, _EMPTY_OBJECT, _EMPTY_ARRAY = "btrue", "bfalse", "znull", "o{}", "a[]"
_LARGE = float(-LEAST_INTEGER)


@dataclass(frozen=True, slots=True)
class FlattenOptions:
    """Rules for flattening documents, and limits of their size."""

    arrays: Literal["index", "whole"] = "index"
    nulls: Literal["absent", "value"] = "absent"
    ignore: frozenset[str] = frozenset()  # paths that never join: the event time, a sequence number
    max_bytes: int = 1 << 20
    max_depth: int = 32
    max_pairs: int = 4096

    def __post_init__(self) -> None:
        if self.arrays not in ("index", "whole"):
            raise InvalidOption("arrays", self.arrays, "'index' or 'whole'")
        if self.nulls not in ("absent", "value"):
            raise InvalidOption("nulls", self.nulls, "'absent' or 'value'")
        for name in ("max_bytes", "max_depth", "max_pairs"):
            if getattr(self, name) < 1:
                raise InvalidOption(name, getattr(self, name), "at least 1")
        if self.max_depth > 100:
            raise InvalidOption("max_depth", self.max_depth, "at most 100")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line for quarantine."""

    id: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result for some lines: each is a document or rejected."""

    documents: Documents
    rejected: tuple[Rejected, ...]


@dataclass(slots=True)
class _Place:
    """A path with the codes of the values seen there."""

    path: str
    ignored: bool
    # Numbers and text are their own keys, everything else by its typed text, since `True == 1` in Python.
    codes: dict[object, int] = field(default_factory=dict)
    typed: dict[str, int] = field(default_factory=dict)
    members: dict[str, _Place] = field(default_factory=dict)
    items: list[_Place] = field(default_factory=list)


class DocumentEncoder:
    """Encodes lines with one dictionary; one encoder per window."""

    def __init__(self, options: FlattenOptions | None = None, dictionary: Dictionary | None = None) -> None:
        self.options = FlattenOptions() if options is None else options
        self.dictionary = Dictionary() if dictionary is None else dictionary
        self._root = _Place("", False)
        self._out: list[int] = []
        self._keys = 0
        self._doubtful = False

    def encode(self, lines: Sequence[bytes], ids: I64) -> Encoded:
        """Encode lines in order, separating those that are no documents."""
        self._out, lengths, accepted = [], [], []
        rejected: list[Rejected] = []
        for position, line in enumerate(lines):
            start = len(self._out)
            try:
                self._encode(line, start)
            except Refused as refused:
                del self._out[start:]
                rejected.append(Rejected(int(ids[position]), refused.reason))
                continue
            lengths.append(len(self._out) - start)
            accepted.append(position)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        pairs = np.array(self._out, np.int32)
        documents = Documents(np.asarray(ids, np.int64)[accepted], offsets, pairs, self.dictionary)
        return Encoded(documents, tuple(rejected))

    def _encode(self, line: bytes, start: int) -> None:
        """Append the codes of one line's pairs to `_out`."""
        if len(line) > self.options.max_bytes:
            raise Refused("too_large")
        try:
            parsed = orjson.loads(line)
        except orjson.JSONDecodeError:
            parsed = None
        if parsed.__class__ is dict and b"\\u0000" not in line:
            self._keys, self._doubtful = 0, False
            try:
                self._object(parsed, self._root, 1)
            except Refused:
                self._doubtful = True  # `parse_strictly` decides, and gives the reason
            if not self._doubtful and separators(line) == self._keys:
                if len(self._out) - start > self.options.max_pairs:
                    raise Refused("too_many_pairs")
                return
            del self._out[start:]
        self._object(parse_strictly(line), self._root, 1)
        if len(self._out) - start > self.options.max_pairs:
            raise Refused("too_many_pairs")

    def _object(self, members: dict[str, Json], place: _Place, depth: int) -> None:
        if depth > self.options.max_depth:
            raise Refused("too_deep")
        self._keys += len(members)
        known, append = place.members, self._out.append
        for name, value in members.items():
            child = known.get(name)
            if child is None:
                child = known[name] = self._place(place, _member_path(place.path, name))
            kind = value.__class__
            if kind is str or kind is int:
                if child.ignored:
                    continue
                code = child.codes.get(value)
                append(self._new(child, value) if code is None else code)
            else:
                self._value(value, child, depth)

    def _array(self, items: list[Json], place: _Place, depth: int) -> None:
        if depth > self.options.max_depth:
            raise Refused("too_deep")
        if len(items) > self.options.max_pairs:
            raise Refused("too_many_pairs")
        known = place.items
        while len(known) < len(items):
            known.append(self._place(place, f"{place.path}[{len(known)}]"))
        for child, value in zip(known, items, strict=False):
            self._value(value, child, depth)

    def _value(self, value: Json, place: _Place, depth: int) -> None:
        kind = value.__class__
        if kind is dict and value:
            self._object(value, place, depth + 1)
        elif kind is list and value and self.options.arrays == "index":
            self._array(value, place, depth + 1)
        elif kind is str or kind is int or kind is float:
            if kind is float and not -_LARGE < value < _LARGE:
                self._doubtful = True
            if not place.ignored:
                code = place.codes.get(value)
                self._out.append(self._new(place, value) if code is None else code)
        else:
            self._keyword(value, place, depth)

    def _keyword(self, value: Json, place: _Place, depth: int) -> None:
        if value is None:
            if self.options.nulls == "value":
                self._typed(_NULL, place)
        elif value is True or value is False:
            self._typed(_TRUE if value else _FALSE, place)
        elif value.__class__ is list and value:
            self._count(value, depth + 1)
            self._typed("a" + json.dumps(_canonical(value), ensure_ascii=False, separators=(",", ":")), place)
        else:
            self._typed(_EMPTY_ARRAY if value.__class__ is list else _EMPTY_OBJECT, place)

    def _count(self, value: Json, depth: int) -> None:
        """Count depth, keys and large floats inside an array that is not flattened."""
        if depth > self.options.max_depth and isinstance(value, dict | list):
            raise Refused("too_deep")
        if isinstance(value, dict):
            self._keys += len(value)
        elif isinstance(value, float) and not -_LARGE < value < _LARGE:
            self._doubtful = True
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._count(item, depth + 1)

    def _typed(self, text: str, place: _Place) -> None:
        if place.ignored:
            return
        code = place.typed.get(text)
        if code is None:
            code = place.typed[text] = self._pair(place, text)
        self._out.append(code)

    def _new(self, place: _Place, value: str | int | float) -> int:
        text = "s" + value if isinstance(value, str) else "n" + _number_text(value)
        code = place.codes[value] = self._pair(place, text)
        return code

    def _pair(self, place: _Place, typed: str) -> int:
        return self.dictionary.code(place.path + SEPARATOR + typed)

    def _place(self, parent: _Place, path: str) -> _Place:
        return _Place(path, parent.ignored or path in self.options.ignore)


def _member_path(parent: str, name: str) -> str:
    escaped = name.translate(_SPECIAL)
    # A path begins with a name, so an empty name at the top must not look like no name: "a" under "" is ".a".
    return f"{parent}.{escaped}" if parent else escaped or "\\e"


def _number_text(value: int | float) -> str:
    if isinstance(value, float) and value.is_integer() and LEAST_INTEGER <= value < BEYOND_INTEGERS:
        return str(int(value))
    return str(value) if isinstance(value, int) else repr(value)


def _canonical(value: Json) -> Json:
    """Normalize JSON values so that equal ones have the same text: members sorted, integral numbers as integers."""
    if isinstance(value, dict):
        return {name: _canonical(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and LEAST_INTEGER <= value < BEYOND_INTEGERS:
        return int(value)
    return value
