"""Codes order as their keys do, tell different keys apart, and are found where a plain search finds them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings

from etl.masters.rows import key_codec

integers = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
texts = st.text(st.sampled_from("\0\x01aé"), max_size=5)
binaries = st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"a"]), max_size=5).map(b"".join)


def as_bytes(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


@settings(deadline=None)
@example([(0, "a", b"\0\0b", 1), (0, "a\0\0", b"b", 1)])  # alike, if the end of a text could be inside it
@given(st.lists(st.tuples(integers, texts, binaries, integers), max_size=30))
def test_codes_of_several_columns_order_and_differ_as_the_keys_do(keys: list[tuple[Any, ...]]) -> None:
    types = [pa.int64(), pa.string(), pa.binary(), pa.int32() if not keys else pa.int64()]
    columns = [pa.array([key[place] for key in keys], types[place]) for place in range(4)]
    made = key_codec.of_columns(columns).to_pylist()
    by_code = sorted(range(len(keys)), key=lambda row: made[row])
    by_key = sorted(range(len(keys)), key=lambda row: as_bytes(keys[row]))
    assert [keys[row] for row in by_code] == [keys[row] for row in by_key]
    assert len(set(made)) == len({as_bytes(key) for key in keys})


@settings(deadline=None)
@given(st.one_of(st.tuples(*[st.lists(integers)] * 2), st.tuples(*[st.lists(binaries)] * 2)))
def test_search_finds_what_bisect_finds(lists: tuple[list[Any], list[Any]]) -> None:
    known, wanted = sorted(lists[0]), lists[1]
    code_type = pa.binary() if any(isinstance(key, bytes) for key in known + wanted) else pa.int64()
    haystack, needles = pa.array(known, code_type), pa.array(wanted, code_type)
    assert key_codec.search(haystack, needles).tolist() == [bisect_left(known, key) for key in wanted]
    assert key_codec.search(haystack, needles, "right").tolist() == [bisect_right(known, key) for key in wanted]


@settings(deadline=None)
@example([1] * 200, [0, 63, 64, 199], 64, -(2**63))
@example([1, 2**62, 2**62, 2**62], [0, 1, 2, 3], 64, -(2**63))  # so far apart that differences overflow
@given(
    st.lists(st.one_of(st.just(1), st.integers(1, 3), st.integers(1, 2**40)), min_size=1, max_size=300),
    st.lists(st.integers(0, 300), max_size=40),
    st.sampled_from([64, 128]),
    st.integers(-(2**40), 2**40),
)
def test_a_guess_never_changes_what_is_found(steps: list[int], picked: list[int], rows: int, least: int) -> None:
    """Keys that count up are guessed, with gaps corrected, and else searched: by all ways the same row."""
    held = np.cumsum([least, *steps[1:]], dtype=np.int64)
    firsts = pa.array(held[::rows])
    lasts = pa.array([held[min(start + rows, len(held)) - 1] for start in range(0, len(held), rows)])
    some = pa.array(sorted({int(held[at % len(held)]) + more for at in picked for more in (0, 1)}), pa.int64())
    inside, pages = key_codec.inside(some, firsts, lasts)
    wanted = some.filter(pa.array(inside))
    guess = key_codec.counted_up(wanted, firsts, lasts, pages, rows)
    found = key_codec.search_near(pa.array(held), wanted, pages * rows, rows, guess)
    assert found.tolist() == key_codec.search(pa.array(held), wanted).tolist()


@settings(deadline=None)
@given(st.lists(binaries, min_size=1), binaries, st.integers(0, 2**32))
def test_many_bytes_are_sorted_as_few_are(keys: list[bytes], shared: bytes, seed: int) -> None:
    picked = np.random.default_rng(seed).integers(0, len(keys), 1_500)  # with many repeats, and more than a few
    array = pa.array([shared + keys[place] for place in picked], pa.binary()).slice(7)
    expected = sorted(range(len(array)), key=lambda row: array[row].as_py())
    assert key_codec.argsort(array).tolist() == expected


@settings(deadline=None)
@given(st.sets(st.integers(0, 60)), st.lists(st.integers(-1, 61)))
def test_codes_inside_ranges_are_found_with_their_range(edges: set[int], keys: list[int]) -> None:
    ends = sorted(edges)[: len(edges) // 2 * 2]
    ordered = sorted(keys)
    mask, ranges = key_codec.inside(*[pa.array(part, pa.int64()) for part in (ordered, ends[::2], ends[1::2])])
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    expected = [[place for place, (low, high) in enumerate(pairs) if low <= key <= high] for key in ordered]
    assert mask.tolist() == [bool(hit) for hit in expected]
    assert ranges.tolist() == [hit[0] for hit in expected if hit]


@settings(deadline=None)
@given(st.one_of(st.lists(integers), st.lists(binaries)))
def test_sorting_is_stable_and_repeats_are_seen(keys: list[Any]) -> None:
    array = pa.array(keys, pa.binary() if keys and isinstance(keys[0], bytes) else pa.int64())
    order = key_codec.argsort(array)
    assert order.tolist() == sorted(range(len(keys)), key=lambda row: keys[row])
    ordered = key_codec.take(array, order)
    assert key_codec.sorted_distinct(array).to_pylist() == sorted(set(keys))
    assert int(np.count_nonzero(key_codec.first_of_equals(ordered))) == len(set(keys))
    assert (key_codec.first_not_rising(ordered) is None) == (len(set(keys)) == len(keys))
