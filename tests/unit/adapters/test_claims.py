"""Claims: which keys are taken, and by which payload, from sorted runs of any shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from etl.adapters import claims as claim
from etl.adapters.claims import ACCEPTED, FREE, RELEASED, WAITING, ClaimIndex, ClaimRun, Claims, ClaimsDamaged
from etl.columnar.keys import encode


def some(*rows: tuple[int, int, int, int, int]) -> Claims:
    """Claims as (lo, hi, payload, batch, state)."""
    columns = np.array(rows, np.int64).reshape(len(rows), 5).T
    lo, hi = columns[0].astype(np.uint64), columns[1].astype(np.uint64)
    return Claims(lo, hi, columns[2], columns[3], columns[4].astype(np.uint8))


def found(index: ClaimIndex, *keys: tuple[int, int]) -> list[tuple[int, int, int]]:
    """State, payload and batch of every key."""
    lo, hi = (np.array(lane, np.uint64) for lane in zip(*keys, strict=True))
    held = index.find(lo, hi)
    return list(zip(held.state.tolist(), held.payload.tolist(), held.batch.tolist(), strict=True))


def test_a_key_is_held_by_the_newest_run_that_knows_it(tmp_path: Path) -> None:
    runs = [
        claim.write_run(tmp_path, "1", some((1, 0, 10, 1, ACCEPTED), (2, 0, 20, 1, WAITING), (3, 0, 30, 1, WAITING))),
        claim.write_run(tmp_path, "2", some((2, 0, 20, 2, ACCEPTED), (3, 0, 30, 2, RELEASED))),
    ]
    index = ClaimIndex(tmp_path, runs[::-1])
    assert found(index, (3, 0), (1, 0), (2, 0), (4, 0), (1, 0)) == [
        (FREE, 30, 2),
        (ACCEPTED, 10, 1),
        (ACCEPTED, 20, 2),
        (FREE, 0, 0),
        (ACCEPTED, 10, 1),
    ]
    assert found(ClaimIndex(tmp_path, []), (1, 0)) == [(FREE, 0, 0)]


def test_keys_of_two_lanes_are_told_apart_by_both(tmp_path: Path) -> None:
    run = claim.write_run(tmp_path, "1", some((1, 1, 11, 1, ACCEPTED), (1, 2, 12, 1, WAITING), (2, 1, 21, 1, WAITING)))
    index = ClaimIndex(tmp_path, [run])
    assert found(index, (1, 2), (2, 1), (1, 1), (2, 2), (1, 0)) == [
        (WAITING, 12, 1),
        (WAITING, 21, 1),
        (ACCEPTED, 11, 1),
        (FREE, 0, 0),
        (FREE, 0, 0),
    ]


def test_keys_that_share_a_rank_are_still_different_keys(tmp_path: Path) -> None:
    """A rank is lo ^ mix(hi): any lo can be given the rank of another key."""
    ranks = claim._rank(np.array([7], np.uint64), np.array([1], np.uint64))
    twin = int(ranks[0])
    lo, hi = np.array([7, twin], np.uint64), np.array([1, 0], np.uint64)
    assert len(set(claim._rank(lo, hi).tolist())) == 1
    columns = np.array([70, 80]), np.array([1, 1]), np.array([ACCEPTED, WAITING], np.uint8)
    index = ClaimIndex(tmp_path, [claim.write_run(tmp_path, "1", Claims(lo, hi, *columns))])
    held = index.find(lo[::-1].copy(), hi[::-1].copy())
    assert held.payload.tolist() == [80, 70]
    assert held.state.tolist() == [WAITING, ACCEPTED]


def test_composite_and_text_keys_have_lanes(tmp_path: Path) -> None:
    struct = pa.StructArray.from_arrays([pa.array([1, 1, 2]), pa.array(["a", "b", "a"])], names=["x", "y"])
    for column in (struct, pa.array(["one", "two", "three"]), pa.array([1, 2, 3])):
        lo, hi = claim.lanes(encode(column))
        many = Claims(lo[:2], hi[:2], np.array([1, 2]), np.array([1, 1]), np.full(2, ACCEPTED, np.uint8))
        name = str(column.type.id)
        held = ClaimIndex(tmp_path, [claim.write_run(tmp_path, name, many)]).find(lo, hi)
        assert held.state.tolist() == [ACCEPTED, ACCEPTED, FREE]


def test_merging_keeps_the_newest_of_every_key_and_forgets_released_ones_only_when_nothing_is_older(
    tmp_path: Path,
) -> None:
    runs = [
        claim.write_run(tmp_path, "1", some((1, 0, 10, 1, WAITING), (2, 0, 20, 1, ACCEPTED))),
        claim.write_run(tmp_path, "2", some((1, 0, 10, 2, RELEASED), (3, 0, 30, 2, ACCEPTED))),
        claim.write_run(tmp_path, "3", some((4, 0, 40, 3, WAITING))),
    ]
    newer = claim.merge(tmp_path, runs[1:], "partly", complete=False)
    assert (newer.entries, newer.batch) == (3, 3)
    partly = ClaimIndex(tmp_path, [runs[0], newer])
    whole = claim.merge(tmp_path, [newer, runs[0]], "whole", complete=True)
    assert whole.entries == 3, "key 1 is free, and nothing older could say otherwise"
    keys = [(number, 0) for number in range(6)]
    states = [state for state, _, _ in found(partly, *keys)]
    assert states == [state for state, _, _ in found(ClaimIndex(tmp_path, [whole]), *keys)]
    assert states == [FREE, FREE, ACCEPTED, ACCEPTED, WAITING, FREE]


def sizes(*entries: int) -> list[ClaimRun]:
    """Runs of these sizes, the newest last."""
    return [ClaimRun(str(batch), size, 0, batch) for batch, size in enumerate(entries, 1)]


def test_runs_are_merged_when_there_are_enough_of_about_one_size() -> None:
    assert claim.due(sizes(*[100] * 7)) == ()
    assert len(claim.due(sizes(*[100] * 8))) == 8
    assert claim.due(sizes(1_000_000, *[100] * 7)) == (), "a large run is not written again for a few small ones"
    assert [run.entries for run in claim.due(sizes(1_000_000, *[100] * 8))] == [100] * 8
    assert claim.due([]) == ()


def test_merging_costs_in_proportion_to_what_comes_and_leaves_few_runs(tmp_path: Path) -> None:
    """A thousand batches of one size: every entry is written again a few times, and lookups visit few runs."""
    runs: list[ClaimRun] = []
    written = longest = 0
    for batch in range(1, 1_001):
        runs.append(ClaimRun(str(batch), 100, 0, batch))
        chosen = claim.due(runs)
        if chosen:
            merged = ClaimRun(f"m{batch}", sum(run.entries for run in chosen), 0, batch)
            runs = [*(run for run in runs if run not in chosen), merged]
            written += merged.entries
        longest = max(longest, len(runs))
    assert longest <= 24
    assert written <= 8 * 100_000


@pytest.mark.parametrize("damage", ["flipped", "short", "gone", "another"])
def test_a_damaged_run_is_refused_and_never_taken_for_free_keys(tmp_path: Path, damage: str) -> None:
    run = claim.write_run(tmp_path, "1", some(*[(number, 0, 1, 1, ACCEPTED) for number in range(100)]))
    path = tmp_path / run.path
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "short":
        path.write_bytes(content[:-10])
    elif damage == "gone":
        path.unlink()
    else:
        claim.write_run(tmp_path, "1", some((1, 0, 1, 1, ACCEPTED)))
    for attempt in (lambda: ClaimIndex(tmp_path, [run]), lambda: claim.merge(tmp_path, [run], "m", complete=True)):
        with pytest.raises(ClaimsDamaged, match="the claims in 1 are damaged or missing"):
            attempt()


def test_an_index_uses_the_open_runs_of_the_one_before(tmp_path: Path) -> None:
    first = claim.write_run(tmp_path, "1", some((1, 0, 10, 1, ACCEPTED)))
    before = ClaimIndex(tmp_path, [first])
    (tmp_path / "1").unlink()
    second = claim.write_run(tmp_path, "2", some((2, 0, 20, 2, ACCEPTED)))
    after = ClaimIndex(tmp_path, [first, second], before)
    assert [state for state, _, _ in found(after, (1, 0), (2, 0))] == [ACCEPTED, ACCEPTED]
