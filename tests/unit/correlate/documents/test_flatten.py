"""Lines of JSON become pairs or reasons; never an exception."""

from __future__ import annotations

import json

import numpy as np
import pytest

from etl.correlate.documents.dictionary import Dictionary, json_of, path_of, stable_hashes
from etl.correlate.documents.errors import InvalidOption
from etl.correlate.documents.flatten import DocumentEncoder, Encoded, FlattenOptions
from etl.correlate.documents.model import Documents, Pairs, concat, merged


def encode(*lines: str | bytes, options: FlattenOptions | None = None) -> Encoded:
    encoder = DocumentEncoder(options)
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    return encoder.encode(raw, np.arange(len(raw), dtype=np.int64))


def pairs(line: str, options: FlattenOptions | None = None) -> dict[str, str]:
    """Path to value as JSON of the one document in a line."""
    encoded = encode(line, options=options)
    assert encoded.rejected == ()
    return {path_of(key): json_of(key) for key in encoded.documents.keys(0)}


def test_objects_and_arrays_become_paths() -> None:
    line = '{"user": "A", "ip": {"port": 22, "v": {"six": false}}, "tags": ["x", {"y": 1.5}]}'
    assert pairs(line) == {
        "user": '"A"', "ip.port": "22", "ip.v.six": "false", "tags[0]": '"x"', "tags[1].y": "1.5",
    }  # fmt: skip


def test_whole_arrays_are_one_value_whatever_the_order_of_their_members_names() -> None:
    whole = FlattenOptions(arrays="whole")
    encoded = encode('{"t": [1, {"a": 1, "b": 2}]}', '{"t": [1.0, {"b": 2, "a": 1}]}', '{"t": []}', options=whole)
    one, other, empty = (encoded.documents.keys(position) for position in range(3))
    assert one == other
    assert one != empty
    assert json.loads(json_of(one[0])) == [1, {"a": 1, "b": 2}]


def test_different_places_have_different_paths() -> None:
    encoded = encode(
        '{"a": {"b": 1}, "a.b": 1, "a\\\\": {"b": 1}, "a[0]": 1, "c": [1], "c[0": 1, "": 1, "d": {"": 1}, "\\\\e": 1}'
    )
    assert encoded.rejected == ()
    paths = [path_of(key) for key in encoded.documents.keys(0)]
    assert len(set(paths)) == len(paths) == 9


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ('""', "{}"),
        ("[]", "{}"),
        ('"true"', "true"),
        ("1", "2"),
        ('"[]"', "[]"),
    ],
)
def test_values_of_different_type_differ(one: str, other: str) -> None:
    documents = encode(f'{{"a": {one}}}', f'{{"a": {other}}}').documents
    assert documents.pairs[0] != documents.pairs[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [("1", "1.0"), ("1", "1e0"), ("0", "-0.0"), ("100", "1E2"), ("1e19", "10000000000000000000"), ('"\\u0061"', '"a"')],
)
def test_values_that_are_equal_in_json_are_one_value(one: str, other: str) -> None:
    documents = encode(f'{{"a": {one}}}', f'{{"a": {other}}}').documents
    assert documents.pairs[0] == documents.pairs[1]
    apart = [encode(f'{{"a": {value}}}').documents.dictionary for value in (one, other)]
    assert apart[0].hashes[0] == apart[1].hashes[0], "tasks that share no dictionary disagree"


def test_null_is_no_value_unless_asked_for() -> None:
    assert pairs('{"a": null, "b": 1}') == {"b": "1"}
    assert pairs('{"a": null, "b": 1}', FlattenOptions(nulls="value")) == {"a": "null", "b": "1"}


def test_ignored_paths_never_join() -> None:
    options = FlattenOptions(ignore=frozenset({"time", "meta"}))
    assert pairs('{"time": 1, "meta": {"x": [1, true]}, "user": "A"}', options) == {"user": '"A"'}


HOSTILE = [
    (b"", "not_json"), (b"{", "not_json"), (b'{"a": 1} x', "not_json"), (b"{'a': 1}", "not_json"),
    (b'{"a": 01}', "not_json"),
    (b'{"a": 1,}', "not_json"), (b'{"a": "\n"}', "not_json"), (b'\xef\xbb\xbf{"a": 1}', "not_json"),
    (b"[1]", "not_an_object"), (b"1", "not_an_object"), (b'"a"', "not_an_object"), (b"null", "not_an_object"),
    (b'{"a": 1, "a": 1}', "duplicate_key"), (b'{"a":1,"\\u0061":2}', "duplicate_key"),
    (b'{"o": [{"a" : 1, "a"\t: 2}]}', "duplicate_key"),
    (b'{"a\\":": 1, "b": 1, "b": 2}', "duplicate_key"),
    (b'{"a": NaN}', "not_a_number"), (b'{"a": -Infinity}', "not_a_number"),
    (b'{"a": 1e400}', "number_out_of_range"), (b'{"a": 123456789012345678901234567890}', "number_out_of_range"),
    (b'{"a": -9223372036854775809}', "number_out_of_range"), (b'{"a": 18446744073709551616}', "number_out_of_range"),
    (b'{"a": ' + b"9" * 10_000 + b"}", "number_out_of_range"),
    (b'{"a": "\xff"}', "not_utf8"), (b'{"a": "\xed\xa0\x80"}', "not_utf8"),
    ('{"a": 1}'.encode("utf-16"), "nul_character"),
    (b'{"a": "\\u0000"}', "nul_character"), (b'{"a": "\0"}', "nul_character"),
    (b'{"\\u0000": 1}', "nul_character"), (b'{"a": ["\\u0000"]}', "nul_character"),
    (b'{"a": "\\ud800"}', "unpaired_surrogate"), (b'{"\\udc00": 1}', "unpaired_surrogate"),
    (b'{"a": ' * 33 + b"1" + b"}" * 33, "too_deep"), (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "too_deep"),
    (b'{"a": ' * 200_000, "too_large"), (b'{"a": "' + b"x" * 2_000_000 + b'"}', "too_large"),
    (b'{"a": [' + b"1," * 5000 + b"1]}", "too_many_pairs"),
    (json.dumps({str(number): number for number in range(5000)}).encode(), "too_many_pairs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"), HOSTILE, ids=[f"{reason}-{place}" for place, (_, reason) in enumerate(HOSTILE)]
)
def test_a_hostile_line_is_rejected_with_its_reason_and_its_neighbours_are_not(line: bytes, reason: str) -> None:
    encoded = encode(b'{"a": 1}', line, b'{"b": 2}')
    assert [(one.id, one.reason) for one in encoded.rejected] == [(1, reason)]
    assert encoded.documents.ids.tolist() == [0, 2]
    assert encoded.documents.keys(1) == ["b\0n2"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": "\\\\u0000"}',
        b'{"a": "x\\":y"}',
        b'{"a" : ":"}',
        b'{"a": 1e30}',
        b'{"t": "12:30 :x"}',
        b'{"a": 18446744073709551615}',
        b'{"a": "\\ud83d\\ude00"}',
        b"{}",
        b' {"a":[]}\n',
    ],
)
def test_what_only_looks_suspicious_is_accepted(line: bytes) -> None:
    assert encode(line).rejected == ()


def test_a_document_travels_as_arrow_and_comes_back_the_same_in_another_dictionary() -> None:
    documents = encode('{"a": 1, "b": "x\\ty"}', "{}", '{"a": true, "c": {"d": [null, 2.5]}}').documents
    other = Dictionary()
    other.code("z\0n9")
    back = Documents.from_arrow(documents.to_arrow(), other)
    assert [back.keys(position) for position in range(3)] == [documents.keys(position) for position in range(3)]
    assert back.ids.tolist() == documents.ids.tolist()


def test_a_slice_of_an_arrow_batch_is_read_from_its_own_start() -> None:
    documents = encode('{"a": 1, "b": 2}', '{"c": 3}').documents
    back = Documents.from_arrow(documents.to_arrow().slice(1), Dictionary())
    assert back.keys(0) == ["c\0n3"]


def test_documents_of_two_dictionaries_are_not_put_together() -> None:
    with pytest.raises(Exception, match="different dictionaries"):
        concat([encode("{}").documents, encode("{}").documents])


def test_a_merged_document_has_every_path_once() -> None:
    documents = encode('{"user": "A", "n": 1}', '{"user": "A", "ip": {"x": "ü"}}').documents
    (text,) = merged(documents, Pairs(np.array([0]), np.array([1]))).to_pylist()
    assert json.loads(text) == {"user": "A", "n": 1, "ip.x": "ü"}
    assert len(merged(documents, Pairs.none())) == 0


def test_hashes_follow_from_the_key_alone() -> None:
    def by_definition(key: str) -> int:
        state = 0xCBF29CE484222325
        for byte in key.encode():
            state = (state ^ byte) * 0x100000001B3 % 2**64
        state ^= state >> 32
        state = state * 0x9E3779B97F4A7C15 % 2**64
        return state ^ (state >> 29)

    keys = ["a\0n1", "", "pfad\0sü"]
    assert stable_hashes(keys).tolist() == [by_definition(key) for key in keys]


@pytest.mark.parametrize(
    ("option", "value"),
    [("arrays", "flat"), ("nulls", "no"), ("max_depth", 0), ("max_depth", 101), ("max_pairs", 0), ("max_bytes", -1)],
)
def test_an_option_that_is_not_allowed_is_refused_with_what_is(option: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=f"{option}=.* must be"):
        FlattenOptions(**{option: value})
