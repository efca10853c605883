"""What a joiner needs beside its results does not grow with how many pairs there are."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np

from etl.correlate.documents.flatten import DocumentEncoder
from etl.correlate.documents.joining.descent import BLOCK_RUNS
from etl.correlate.documents.joining.joiner import Joiner
from etl.correlate.documents.joining.tree import tree_bytes
from etl.correlate.documents.model import Documents

_MIB, _RUN_BYTES = 1 << 20, 12


def one_value_in_common(count: int) -> Documents:
    """All share one value, and each has an attribute of its own: every two join."""
    lines = [json.dumps({"app": "shop", "tags": {f"t{number}": 1}}).encode() for number in range(count)]
    return DocumentEncoder().encode(lines, np.arange(count)).documents


def peak_of_an_insert(documents: Documents, at_most: int) -> tuple[int, int, int]:
    """Peak bytes, pairs found and pairs kept."""
    everywhere, joiner = np.ones((len(documents), 1), np.uint64), Joiner(0, 256 * _MIB)
    tracemalloc.start()
    made = joiner.insert(documents, everywhere, at_most)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, made.found, len(made.pairs)


def test_a_joiner_that_keeps_few_of_many_pairs_stays_within_the_bound_of_its_tree_and_one_block() -> None:
    documents = one_value_in_common(10_000)
    assert len(documents.attributes), "made when first asked for"
    peak_of_an_insert(documents.take(np.arange(50)), 10)  # compiles
    peak, found, kept = peak_of_an_insert(documents, 10)
    assert (found, kept) == (10_000 * 9_999 // 2, 10)
    assert peak < tree_bytes(documents) + _RUN_BYTES * BLOCK_RUNS + _MIB


def test_results_take_no_more_than_what_is_kept_of_them() -> None:
    documents = one_value_in_common(2_000)
    few, found, _ = peak_of_an_insert(documents, 10)
    many, _, kept = peak_of_an_insert(documents, 500_000)
    assert (found, kept) == (2_000 * 1_999 // 2, 500_000)
    assert many - few <= 16 * kept + _MIB
