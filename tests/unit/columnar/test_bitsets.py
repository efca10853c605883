"""Bitset kernels against sets of Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar import bitsets

WIDTHS = [1, 3, 63, 64, 65, 130]


def random_bits(rows: int, bits: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, bits)) < 0.3


@pytest.mark.parametrize("bits", WIDTHS)
def test_pack_and_unpack_are_inverse(bits: int) -> None:
    matrix = random_bits(50, bits)
    words = bitsets.pack(matrix)
    assert words.shape == (50, bitsets.words_for(bits))
    assert np.array_equal(bitsets.unpack(words, bits), matrix)


@pytest.mark.parametrize("bits", WIDTHS)
def test_bit_counts_are_the_column_sums(bits: int) -> None:
    matrix = random_bits(77, bits)
    assert bitsets.bit_counts(bitsets.pack(matrix), bits).tolist() == matrix.sum(axis=0).tolist()


@pytest.mark.parametrize("bits", WIDTHS)
def test_one_bit_of_every_row_is_its_column(bits: int) -> None:
    matrix = random_bits(40, bits)
    words = bitsets.pack(matrix)
    for position in range(bits):
        assert np.array_equal(bitsets.has_bit(words, position), matrix[:, position])
    assert np.array_equal(bitsets.any_bit(words), matrix.any(axis=1))


@given(st.sets(st.integers(0, 200)))
def test_a_mask_and_its_positions_say_the_same(positions: set[int]) -> None:
    mask = bitsets.mask_of(positions)
    assert bitsets.positions_of(mask) == sorted(positions)
    assert bitsets.to_mask(bitsets.from_mask(mask, 201)) == mask


@given(st.sets(st.integers(0, 150), min_size=1), st.sets(st.integers(0, 150)), st.integers(0, 2**32))
def test_extract_keeps_what_both_masks_name(source: set[int], target: set[int], seed: int) -> None:
    matrix = random_bits(9, len(source), seed)
    rows = [{p for at, p in enumerate(sorted(source)) if row[at]} for row in matrix]
    words = bitsets.extract(bitsets.pack(matrix), bitsets.mask_of(source), bitsets.mask_of(target))
    names = sorted(target)
    found = [{names[at] for at in np.flatnonzero(row)} for row in bitsets.unpack(words, len(names))]
    assert found == [row & target for row in rows]


def test_union_is_the_bits_that_some_row_has() -> None:
    matrix = np.zeros((3, 70), bool)
    matrix[0, 2] = matrix[2, 69] = True
    assert bitsets.union(bitsets.pack(matrix)) == bitsets.mask_of([2, 69])
    assert bitsets.union(bitsets.pack(matrix[:0])) == 0


@pytest.mark.parametrize("bits", [5, 100])
def test_gather_and_intersects_each_row_with_its_cell(bits: int) -> None:
    table, start = random_bits(6, bits, 2), random_bits(30, bits, 3)
    cells = np.random.default_rng(4).integers(0, 6, 30).astype(np.int32)
    words = bitsets.pack(start)
    bitsets.gather_and(words, bitsets.pack(table), cells)
    assert np.array_equal(bitsets.unpack(words, bits), start & table[cells])
