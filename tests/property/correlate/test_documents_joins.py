"""Every local join finds exactly what the nested loop finds, each pair once."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.correlate.documents.joining import compiled, plain, tree
from etl.correlate.documents.joining.descent import descend
from etl.correlate.documents.joining.fp_join import FPTreeJoin, join
from etl.correlate.documents.joining.tree import FPTree, tree_bytes
from etl.correlate.documents.joining.tree_order import in_tree_order
from etl.correlate.documents.windows import Window, WindowJoin
from tests.support.documents_strategies import ANY_ROWS, batches, documents, listed, oracle

Rows = list[dict[str, str]]


@given(ANY_ROWS)
def test_the_tree_join_equals_the_nested_loop(rows: Rows) -> None:
    found = documents(rows)
    assert listed(join(found)) == oracle(found)


@given(ANY_ROWS, st.lists(st.integers(0, 24), max_size=6))
def test_the_tree_join_in_batches_equals_the_nested_loop(rows: Rows, cuts: list[int]) -> None:
    found, joined = documents(rows), FPTreeJoin()
    made = [pair for batch in batches(found, cuts) for pair in listed(joined.insert(batch).pairs)]
    assert sorted(made) == oracle(found)


@given(ANY_ROWS)
def test_the_baselines_equal_the_nested_loop(rows: Rows) -> None:
    found = documents(rows)
    assert listed(compiled.nested_loop(found)) == oracle(found)
    assert listed(compiled.hash_join(found)) == oracle(found)
    hashed = enumerate(plain.hash_join(plain.as_mappings(found)))
    assert sorted((before, later) for later, partners in hashed for before in partners) == oracle(found)


@given(ANY_ROWS, st.integers(0, 40))
def test_a_bound_cuts_and_says_how_many_there_were(rows: Rows, at_most: int) -> None:
    found = documents(rows)
    made, wanted = FPTreeJoin().insert(found, at_most=at_most), oracle(found)
    assert made.found == len(wanted)
    assert len(made.pairs) == min(at_most, len(wanted))
    assert set(listed(made.pairs)) <= set(wanted)


@given(ANY_ROWS, st.integers(1, 5), st.integers(0, 40), st.lists(st.integers(0, 24), max_size=3))
def test_runs_in_blocks_make_the_same_pairs_in_the_same_order(
    rows: Rows, block_runs: int, at_most: int, cuts: list[int]
) -> None:
    found = documents(rows)
    wanted, joined = FPTreeJoin(), FPTreeJoin()
    for batch in batches(found, cuts):
        whole = wanted.insert(batch, at_most=at_most)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tree, "descend", partial(descend, block_runs=block_runs))
            made = joined.insert(batch, at_most=at_most)
        assert (made.found, made.pairs.left.tolist()) == (whole.found, whole.pairs.left.tolist())
        assert made.pairs.right.tolist() == whole.pairs.right.tolist()
    of = FPTree.build(found)
    arrays, limits = of.arrays, np.arange(len(found), dtype=np.int64)
    blocks = descend(arrays, of.header, arrays.offsets, arrays.ranks, arrays.labels, limits, block_runs)
    assert all(len(block.runs) < block_runs + max(len(found), 1) for block in blocks)


@given(ANY_ROWS)
def test_a_tree_holds_no_more_than_its_bound(rows: Rows) -> None:
    found = documents(rows)
    held = FPTree.build(found)
    built = held.nbytes
    held.probe(found)
    assert built < held.nbytes <= tree_bytes(found) + 1024, "with the header table that probes ask for"


@given(ANY_ROWS, st.data(), st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(0, 24), max_size=4))
def test_windows_join_documents_that_share_one_and_no_others(
    rows: Rows, data: st.DataObject, slots: int, slide: int, cuts: list[int]
) -> None:
    found = documents(rows)
    times = data.draw(st.lists(st.integers(-10, 40), min_size=len(rows), max_size=len(rows)))
    window, places = Window(slots * slide, slide), np.array(times, np.int64)
    joined = WindowJoin(window)
    made = []
    for batch in batches(found, cuts):
        result = joined.insert(batch, places[batch.ids])
        made += listed(result.made.pairs)
        assert not result.late.any()
    starts = [slide * number for number in range(-80, 80)]
    together = {
        (one, other)
        for one, other in oracle(found)
        if any(
            start <= times[one] < start + window.size and start <= times[other] < start + window.size
            for start in starts
        )
    }
    assert sorted(made) == sorted(together)


@given(ANY_ROWS, st.integers(1, 3), st.integers(1, 5))
def test_expired_slots_are_those_that_nothing_can_join_any_more(rows: Rows, slots: int, slide: int) -> None:
    found = documents(rows)
    window, joined, kept = Window(slots * slide, slide), WindowJoin(Window(slots * slide, slide)), []
    for position in range(len(found)):  # in the order of time: nothing is late, and expiry changes nothing
        joined.expire(position)
        result = joined.insert(found.take(np.array([position])), np.array([position]))
        kept += listed(result.made.pairs)
        assert not result.late.any()
        assert len(joined.joins) <= slots
    near = [(one, other) for one, other in oracle(found) if other // slide - one // slide < window.slots]
    assert sorted(kept) == sorted(near)


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([np.uint16, np.int32]))
def test_documents_sorted_in_blocks_are_sorted_and_equal_ones_stay_in_the_order_of_the_stream(
    seed: int, block_size: int, ranks_as: type
) -> None:
    draw = np.random.default_rng(seed)
    pair_label, rank_of_label = draw.permutation(6).astype(np.int32), np.arange(1, 7).astype(ranks_as)
    given = [draw.choice(6, draw.integers(0, 5), replace=False).tolist() for _ in range(200)]
    offsets = np.cumsum([0, *map(len, given)])
    pairs = np.array([pair for row in given for pair in row], np.int32)
    rows = [sorted(pair_label[row].tolist()) for row in given]
    order, ends, laid_out, ranks = in_tree_order(offsets, pairs, pair_label, rank_of_label, block_size)
    assert order.tolist() == sorted(range(200), key=lambda document: (rows[document], document))
    assert [laid_out[low:high].tolist() for low, high in pairwise(ends)] == sorted(rows)
    assert ranks.tolist() == (laid_out + 1).tolist()


@given(st.integers(0, 2**32))
def test_the_tree_join_equals_the_nested_loop_where_documents_have_long_tails_and_many_are_equal(seed: int) -> None:
    draw = np.random.default_rng(seed)
    kinds = [
        {name: str(draw.integers(2)) for name in "abcdefghij"[: draw.integers(1, 11)] if draw.random() < 0.7}
        for _ in range(12)
    ]
    found = documents([kinds[kind] for kind in draw.integers(0, 12, 40)])
    assert listed(join(found)) == oracle(found)
    stored = FPTreeJoin()
    made = [pair for batch in batches(found, [13, 29]) for pair in listed(stored.insert(batch).pairs)]
    assert sorted(made) == oracle(found)
