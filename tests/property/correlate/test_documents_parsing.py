"""The fast way to read a line agrees with the strict one, on anything."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from etl.correlate.documents import flatten
from etl.correlate.documents.flatten import DocumentEncoder, FlattenOptions
from etl.correlate.documents.model import Documents

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=True), st.text(max_size=6),
    st.sampled_from(["\0", ":", '":', " :", "\\u0000", "ü", "\ud800"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)
OPTIONS = st.builds(
    FlattenOptions, arrays=st.sampled_from(["index", "whole"]), nulls=st.sampled_from(["absent", "value"]),
    max_depth=st.integers(1, 4), max_pairs=st.integers(1, 12), ignore=st.sampled_from([frozenset(), frozenset({"a"})]),
)  # fmt: skip


class Strict(DocumentEncoder):
    """An encoder that never takes the fast way."""

    def _encode(self, line: bytes, start: int) -> None:
        if len(line) > self.options.max_bytes:
            raise flatten.Refused("too_large")
        self._object(flatten.parse_strictly(line), self._root, 1)
        if len(self._out) - start > self.options.max_pairs:
            raise flatten.Refused("too_many_pairs")


def outcome(encoder: DocumentEncoder, line: bytes) -> object:
    encoded = encoder.encode([line], np.zeros(1, np.int64))
    return encoded.rejected[0].reason if encoded.rejected else encoded.documents.keys(0)


@given(OBJECTS, OPTIONS, st.sampled_from([None, 1]), st.booleans())
def test_both_ways_agree_on_json(
    value: dict[str, object], options: FlattenOptions, indent: int, ascii_only: bool
) -> None:
    line = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert outcome(DocumentEncoder(options), line) == outcome(Strict(options), line)


@given(st.text(alphabet='{}[]":,\\u0a 1e-.\t\n', max_size=24))
@example('{"a":1,"a":1}')
@example('{"a" :{"b":1,"b"\t:[]}}')
def test_both_ways_agree_on_what_is_nearly_json(text: str) -> None:
    assert outcome(DocumentEncoder(), text.encode()) == outcome(Strict(), text.encode())


@given(st.binary(max_size=30))
def test_no_bytes_raise(line: bytes) -> None:
    assert outcome(DocumentEncoder(), line) == outcome(Strict(), line)


@given(OBJECTS)
def test_keys_come_back_through_arrow(value: dict[str, object]) -> None:
    encoder = DocumentEncoder()
    line = json.dumps(value).encode()
    documents = encoder.encode([line, line], np.arange(2)).documents
    back = Documents.from_arrow(documents.to_arrow(), DocumentEncoder().dictionary)
    assert [back.keys(place) for place in range(len(back))] == [
        documents.keys(place) for place in range(len(documents))
    ]
