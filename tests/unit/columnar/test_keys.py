"""Keys as numbers, and the hash tables and row store built on them."""

from __future__ import annotations

import string

import numpy as np
import pyarrow as pa
import pytest

from etl.columnar.errors import KeyTypeMismatch, KeyTypeUnsupported
from etl.columnar.hash_index import HashIndex
from etl.columnar.keys import Keys, approx_distinct, distinct, encode, in_key_order, kind, match_rows, same_kind, valid
from etl.enrich.front_stage.expiring_keys import ExpiringKeys
from etl.enrich.front_stage.row_store import RowStore, row_bytes

RNG = np.random.default_rng(37)
WORDS = sorted({"".join(RNG.choice(list(string.ascii_letters), RNG.integers(0, 40))) for _ in range(3_000)})


def ints(values) -> Keys:  # type: ignore[no-untyped-def]
    return encode(pa.array(values, pa.int64()))


def test_different_strings_have_different_fingerprints_and_equal_ones_equal() -> None:
    keys = encode(pa.array(WORDS))
    assert len(np.unique(keys.lo)) == len(np.unique(keys.hi)) == len(WORDS)
    sliced = encode(pa.array(["skip me", *WORDS]).slice(1))
    assert (sliced.lo == keys.lo).all()
    large = encode(pa.array(WORDS, pa.large_string()))
    assert (large.lo == keys.lo).all()


def test_a_struct_key_depends_on_where_its_parts_end() -> None:
    keys = encode(pa.array([{"a": "ab", "b": "c"}, {"a": "a", "b": "bc"}, {"a": "abc", "b": ""}]))
    assert len(np.unique(keys.lo)) == 3


def test_keys_of_one_kind_may_differ_in_width_only() -> None:
    same_kind(pa.int32(), pa.int64())
    same_kind(pa.string(), pa.large_string())
    with pytest.raises(KeyTypeMismatch):
        same_kind(pa.string(), pa.binary())
    with pytest.raises(KeyTypeMismatch):
        same_kind(pa.struct([("a", pa.int64())]), pa.int64())
    for unusable in (pa.float64(), pa.uint64(), pa.bool_(), pa.struct([("a", pa.float32())])):
        with pytest.raises(KeyTypeUnsupported):
            kind(unusable)


def test_keys_turn_back_into_what_they_were() -> None:
    for values in (pa.array([1, -5], pa.int16()), pa.array(["a", ""]), pa.array([{"a": 1, "b": 2}])):
        assert encode(values).arrow().equals(values)


def test_a_key_is_whole_when_none_of_its_parts_is_null() -> None:
    kind_ = pa.struct([("a", pa.int64()), ("b", pa.string())])
    keys = pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "x"}, None], kind_)
    assert valid(keys).tolist() == [True, False, False]


@pytest.mark.parametrize("text", [False, True])
def test_distinct_tells_keys_apart_in_order_of_appearance(text: bool) -> None:
    drawn = RNG.integers(0, 50, 500)
    keys = encode(pa.array([f"k{i}" for i in drawn]) if text else pa.array(drawn))
    groups = distinct(keys)
    first_seen = list(dict.fromkeys(drawn.tolist()))
    assert [first_seen[code] for code in groups.codes] == drawn.tolist()
    assert drawn[groups.first].tolist() == first_seen
    assert groups.counts.sum() == 500
    assert match_rows(keys.take(groups.first), keys).tolist() == groups.codes.tolist()


@pytest.mark.parametrize("values", [[], [7], [3, 1, 3, 2, 1, 3], [5, -5, 2**62, -5], ["b", "a", "b"]])
def test_keys_told_apart_in_key_order_are_the_same_keys(values: list) -> None:
    keys = encode(pa.array(values, pa.string() if "a" in values else pa.int64()))
    groups = in_key_order(keys)
    wanted = keys.take(groups.first)
    assert wanted.arrow().take(pa.array(groups.codes)).to_pylist() == values
    assert groups.counts.tolist() == [values.count(value) for value in wanted.arrow().to_pylist()]
    assert match_rows(wanted, keys).tolist() == groups.codes.tolist()
    assert match_rows(wanted, wanted).tolist() == list(range(len(wanted)))


def test_about_distinct_is_near_for_many_and_exact_for_few() -> None:
    assert approx_distinct(ints([1, 1, 2])) == 2
    for distinct_keys in (2_000, 30_000, 100_000):
        drawn = RNG.integers(0, distinct_keys, 100_000)
        assert approx_distinct(ints(drawn)) == pytest.approx(len(np.unique(drawn)), rel=0.03)


@pytest.mark.parametrize("text", [False, True])
def test_a_hash_index_behaves_like_a_dictionary(text: bool) -> None:
    def keys(values: list[int]) -> Keys:
        return encode(pa.array([f"k{v}" for v in values], pa.string())) if text else ints(values)

    index, truth = HashIndex(8, two_lanes=text), {}
    for round_ in range(600):
        some = np.unique(RNG.integers(0, 60, 7)).tolist()
        if RNG.random() < 0.5:
            new = [value for value in some if value not in truth]
            index.add(keys(new), np.full(len(new), round_))
            truth.update(dict.fromkeys(new, round_))
        else:
            index.remove(keys(some))
            truth = {key: value for key, value in truth.items() if key not in some}
        assert index.find(keys(list(range(60)))).tolist() == [truth.get(key, -1) for key in range(60)]
        assert index.size == len(truth)


def test_a_hash_index_that_is_not_outgrown_keeps_its_size_in_bytes() -> None:
    index = HashIndex(100, two_lanes=False)
    size = index.nbytes
    assert size == HashIndex.bytes_for(100, two_lanes=False)
    for start in range(0, 10_000, 100):
        index.add(ints(np.arange(start, start + 100)), np.arange(100))
        index.remove(ints(np.arange(start, start + 100)))
    assert index.nbytes == size


def test_remembered_keys_forget_the_oldest_first() -> None:
    remembered = ExpiringKeys(3, two_lanes=False)
    remembered.add(ints([1, 2]), until=5.0)
    remembered.add(ints([3, 4, 4]), until=9.0)
    assert remembered.until(ints([1, 2, 3, 4])).tolist() == [-np.inf, 5.0, 9.0, 9.0]
    remembered.remove(ints([3]))
    assert len(remembered) == 2
    remembered.add(ints(np.arange(10, 30)), until=1.0)
    assert remembered.until(ints([27, 28, 29, 2])).tolist() == [1.0, 1.0, 1.0, -np.inf]
    remembered.clear()
    assert len(remembered) == 0


def test_row_sizes_follow_the_length_of_their_strings() -> None:
    table = pa.table({"id": [1, 2], "name": ["", "x" * 10], "pair": [{"a": "yy"}, {"a": None}]})
    small, large = row_bytes(table)
    assert large - small == 10 - 2


def test_a_row_store_cleans_holes_until_it_fits() -> None:
    store = RowStore(1_000, 100_000)
    rows = pa.table({"id": np.arange(1_000), "name": ["x" * 50] * 1_000})
    store.put(np.arange(1_000), rows)
    full = store.nbytes
    store.drop(np.arange(0, 1_000, 2))
    assert store.nbytes > 0.9 * full, "holes count until they are cleaned"
    store.clean(int(0.7 * full))
    assert store.nbytes <= 0.7 * full
    wanted = np.array([999, 1, 501])
    assert store.take(wanted).column("id").to_pylist() == [999, 1, 501]
    assert store.every().take(pa.array(store.places(wanted))).column("id").to_pylist() == [999, 1, 501]
