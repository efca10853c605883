"""The shared front stage: rows that many workers map, what they learn, and the file in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.columnar.keys import encode
from etl.contract.model import Master
from etl.enrich.batch import build, join_batch
from etl.enrich.front_stage.frequencies import FrequencyCollector, KeyFrequencies, total
from etl.enrich.front_stage.shared import HotRows, SharedFrontStage
from etl.enrich.front_stage.stage import FrontStageConfig
from etl.masters.front_stage import file as front_stage_file
from etl.masters.front_stage import keeper as keeper_module
from etl.masters.front_stage.file import FrontStageDamaged, Provenance
from etl.masters.front_stage.keeper import FrontStageKeeper
from etl.masters.masters import pinned_pages
from etl.masters.memory import MemoryMaster
from etl.masters.pages.compact import compact
from etl.masters.pages.store import PageStore
from etl.pipeline.tasks.join_notes import MasterNotes
from tests.support.master_pages import SCHEMA, publish, refresh, table

CONFIG = FrontStageConfig(200_000)


def learned(*wanted: tuple[int, int]) -> KeyFrequencies:
    keys = pa.array([key for key, _ in wanted], pa.int64())
    return KeyFrequencies(keys, np.array([count for _, count in wanted], np.int64), sum(count for _, count in wanted))


def names(hot: HotRows) -> dict[int, str]:
    return dict(zip(hot.rows["id"].to_pylist(), hot.rows["name"].to_pylist(), strict=True))


# ── what is learned ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), unique_by=lambda pair: pair[0])))
def test_notes_of_many_workers_add_up_key_by_key(parts: list[list[tuple[int, int]]]) -> None:
    notes = [learned(*part) for part in parts]
    expected: dict[int, int] = {}
    for part in parts:
        for key, count in part:
            expected[key] = expected.get(key, 0) + count
    if notes:
        added = total(notes)
        assert dict(zip(added.keys.to_pylist(), added.counts.tolist(), strict=True)) == expected
        assert added.tuples == sum(expected.values())


def test_a_notebook_keeps_the_most_wanted_and_stays_small() -> None:
    book = FrequencyCollector(most=100)
    for start in range(0, 50_000, 500):
        book.note(pa.array(range(start, start + 500)), np.ones(500, np.int64))
        book.note(pa.array(range(20)), np.full(20, 50, np.int64))
    noted = book.snapshot()
    assert noted is not None
    assert len(noted) == 100
    assert set(range(20)) <= set(noted.keys.to_pylist()), "the wanted ones are among those kept"
    assert book.nbytes < 100 * 16 * 10


def test_notes_of_very_many_tasks_stay_as_small_as_those_of_a_few() -> None:
    notes = MasterNotes()
    for task in range(100):
        notes = notes + MasterNotes().with_learned(learned((task % 7, 1), (100 + task, 2)))
        assert len(notes.learned_parts) < 20
    noted = notes.learned
    assert noted is not None
    counts = dict(zip(noted.keys.to_pylist(), noted.counts.tolist(), strict=True))
    assert counts == {**{key: 15 - (key > 1) for key in range(7)}, **{100 + task: 2 for task in range(100)}}
    assert MasterNotes().learned is None


# ── answering from shared rows ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["cinlj", "chybridjoin", "cmeshjoin", "auto"])
@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()])
def test_joins_behind_shared_rows_give_the_same_answers(name: str, key_type: pa.DataType) -> None:
    rows = table(range(500))
    rows = rows.set_column(0, "id", rows["id"].cast(key_type))
    master = MemoryMaster(rows, "id", page_rows=50)
    front = SharedFrontStage(HotRows.of(rows.slice(0, 100), np.ones(100, np.int64)))
    join = build(name, lookup=master, scan=master, index=master, budget_bytes=400_000, front_stage=front)
    wanted = np.random.default_rng(1).integers(0, 600, 2_000)
    keys = pa.array(wanted).cast(key_type)
    result = join_batch(join, keys)
    assert (result.position < 0).tolist() == (wanted >= 500).tolist()
    found = result.master["id"].take(pa.array(result.position[wanted < 500]))
    assert found.to_pylist() == keys.filter(pa.array(wanted < 500)).to_pylist()
    assert result.hit[wanted < 100].all()
    noted = front.snapshot()
    assert noted is not None
    assert noted.tuples == 2_000
    counts = dict(zip(noted.keys.to_pylist(), noted.counts.tolist(), strict=True))
    present = keys.filter(pa.array(wanted < 500)).to_pylist()
    assert all(counts[key] >= present.count(key) for key in set(present)), "hits and misses are both reported"
    assert counts.keys() == set(present)


def test_a_key_found_absent_is_not_asked_for_again_in_the_same_version() -> None:
    front = SharedFrontStage(None)
    master = MemoryMaster(table(range(10)), "id")
    join = build("cinlj", lookup=master, budget_bytes=400_000, front_stage=front)
    first = join_batch(join, pa.array([99, 3, 99]))
    again = join_batch(join, pa.array([99, 3]))
    assert first.metrics.cost.lookups == 2
    assert again.metrics.cost.lookups == 1
    assert again.position.tolist()[0] == -1


# ── the file ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()])
def test_rows_come_out_of_the_file_as_they_went_in(tmp_path: Path, key_type: pa.DataType) -> None:
    rows = table(range(0, 3_000, 3))
    rows = rows.set_column(0, "id", rows["id"].cast(key_type))
    front_stage_file.save(tmp_path / "f", HotRows.of(rows, np.arange(1_000)), Provenance("base:7", ("base", "o1")))
    hot, belongs = front_stage_file.load(tmp_path / "f", verify=True)
    assert belongs == Provenance("base:7", ("base", "o1"))
    assert hot.rows.equals(rows)
    assert hot.frequency.tolist() == list(range(1_000))
    found = hot.index.find(encode(pa.array(range(3_000)).cast(key_type)))
    assert found.tolist() == [number // 3 if number % 3 == 0 else -1 for number in range(3_000)]


def test_the_file_of_the_batch_before_keeps_its_name_and_no_older_one_does(tmp_path: Path) -> None:
    path, seen = tmp_path / "f", []
    for batch in range(4):
        front_stage_file.save(path, HotRows.of(table(range(batch + 1)), np.arange(batch + 1)), Provenance("base:1"))
        seen.append(path.stat().st_ino)
        with path.open("rb"):  # a number in use is not given again
            assert [file.stat().st_ino for file in tmp_path.glob(".*")] == seen[-2:-1]
    hot, _ = front_stage_file.load(tmp_path / ".f.previous", verify=True)
    assert hot.rows.num_rows == 3


def test_damage_anywhere_in_the_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    front_stage_file.save(path, HotRows.of(table(range(200)), np.arange(200)), Provenance("base:1"))
    whole = path.read_bytes()
    header_end = 16 + int.from_bytes(whole[8:12], "little")
    padding = {byte for byte in range(header_end, len(whole)) if whole[byte] == 0}
    for at in [0, 9, 13, 20, *range(header_end + 64, len(whole), 997), len(whole) - 1]:
        broken = bytearray(whole)
        broken[at] ^= 0x40
        path.write_bytes(broken)
        try:
            front_stage_file.load(path, verify=True)
        except FrontStageDamaged:
            continue
        assert at in padding, f"byte {at} was changed and nobody noticed"
    for length in (0, 7, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FrontStageDamaged, match="is damaged"):
            front_stage_file.load(path, verify=True)


# ── keeping it ─────────────────────────────────────────────────────────────────────────────────────────────────────


EVERY = tuple(SCHEMA.names[1:])


def ready(
    keeper: FrontStageKeeper, store: PageStore, version: int | None = None, columns: tuple[str, ...] = EVERY
) -> HotRows | None:
    pinned = pinned_pages(
        store, Master("master", "postgres", "master", (("id", "id"),), columns), version or store.current() or 0
    )
    with pinned.open() as view:
        path = keeper.ready(view, pinned.rows_id, pinned.schema)
    if path is None:
        return None
    hot, belongs = front_stage_file.load(path, verify=True)
    assert belongs.rows_id == pinned.rows_id, "workers would pass over rows of another version"
    return hot


def taught(tmp_path: Path) -> tuple[PageStore, FrontStageKeeper]:
    store = PageStore(tmp_path / "master")
    publish(store, table(range(1_000)))
    keeper = FrontStageKeeper(tmp_path / "hot", CONFIG)
    assert ready(keeper, store) is None, "nothing has been learned yet"
    with store.open() as view:
        keeper.learn(learned((5, 9), (6, 8), (7, 3), (2_000, 4)), view)
    return store, keeper


def test_wanted_rows_are_in_the_next_batchs_file(tmp_path: Path) -> None:
    store, keeper = taught(tmp_path)
    hot = ready(keeper, store)
    assert hot is not None
    assert names(hot) == {5: "customer 5", 6: "customer 6", 7: "customer 7"}


def test_the_front_stage_survives_a_restart(tmp_path: Path) -> None:
    store, _ = taught(tmp_path)
    hot = ready(FrontStageKeeper(tmp_path / "hot", CONFIG), store)
    assert hot is not None
    assert names(hot) == {5: "customer 5", 6: "customer 6", 7: "customer 7"}


@pytest.mark.parametrize("restarted", [False, True])
def test_changed_rows_are_read_again_and_deleted_ones_leave(tmp_path: Path, restarted: bool) -> None:
    store, keeper = taught(tmp_path)
    refresh(store, table([5, 500], "renamed"), [6], at=1)
    hot = ready(FrontStageKeeper(tmp_path / "hot", CONFIG) if restarted else keeper, store)
    assert hot is not None
    assert names(hot) == {5: "renamed 5", 7: "customer 7"}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_new_base_keeps_what_was_learned_with_its_new_rows(tmp_path: Path, restarted: bool) -> None:
    store, keeper = taught(tmp_path)
    refresh(store, table([5], "renamed"), at=1)
    compact(store)
    publish(store, table(range(6, 1_000), "published"))
    hot = ready(FrontStageKeeper(tmp_path / "hot", CONFIG) if restarted else keeper, store)
    assert hot is not None
    assert names(hot) == {6: "published 6", 7: "published 7"}


def test_a_damaged_file_is_thrown_away_and_learned_anew(tmp_path: Path) -> None:
    store, _ = taught(tmp_path)
    path = tmp_path / "hot"
    broken = bytearray(path.read_bytes())
    broken[-200] ^= 1
    path.write_bytes(broken)
    keeper = FrontStageKeeper(path, CONFIG)
    assert ready(keeper, store) is None
    assert not path.exists()
    with store.open() as view:
        keeper.learn(learned((8, 2)), view)
    hot = ready(keeper, store)
    assert hot is not None
    assert names(hot) == {8: "customer 8"}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_that_is_repeated_at_an_older_version_finds_the_rows_of_that_version(
    tmp_path: Path, restarted: bool
) -> None:
    store, keeper = taught(tmp_path)
    older = refresh(store, table([5], "older"), at=1).version
    refresh(store, table([5, 6], "newer"), at=2)
    assert names(ready(keeper, store) or pytest.fail("nothing kept"))[5] == "newer 5"
    hot = ready(FrontStageKeeper(tmp_path / "hot", CONFIG) if restarted else keeper, store, older)
    assert hot is not None
    assert names(hot) == {5: "older 5", 6: "customer 6", 7: "customer 7"}


def test_a_version_whose_manifest_was_removed_is_not_taken_for_the_next_of_its_number(tmp_path: Path) -> None:
    store, keeper = taught(tmp_path)
    lost = refresh(store, table([5, 6], "lost"), at=1).version
    ready(keeper, store)
    next(store.root.rglob(f"{lost:08d}.json")).unlink()  # as the message about a damaged manifest advises
    assert refresh(store, table([5], "found"), at=1).version == lost
    hot = ready(keeper, store)
    assert hot is not None
    assert names(hot) == {5: "found 5", 6: "customer 6", 7: "customer 7"}


@pytest.mark.parametrize("restarted", [False, True])
def test_other_columns_are_read_anew_for_what_was_learned(tmp_path: Path, restarted: bool) -> None:
    store, keeper = taught(tmp_path)
    fewer = ("nation", "name")
    hot = ready(FrontStageKeeper(tmp_path / "hot", CONFIG) if restarted else keeper, store, columns=fewer)
    assert hot is not None
    assert hot.rows.column_names == ["id", *fewer]
    assert sorted(names(hot)) == [5, 6, 7]


def test_a_file_that_vanished_or_was_replaced_is_written_again(tmp_path: Path) -> None:
    store, keeper = taught(tmp_path)
    assert ready(keeper, store) is not None
    (tmp_path / "hot").unlink()
    hot = ready(keeper, store)
    assert hot is not None
    assert sorted(names(hot)) == [5, 6, 7]
    (tmp_path / "hot").write_bytes(b"somebody else's")
    hot = ready(keeper, store)
    assert hot is not None
    assert sorted(names(hot)) == [5, 6, 7]


def test_the_keeper_tells_who_came_and_went_and_what_was_stale(tmp_path: Path) -> None:
    store, keeper = taught(tmp_path)
    refresh(store, table([5], "renamed"), at=1)
    ready(keeper, store)
    with store.open() as view:
        kept = keeper.learn(learned((5, 1), (8, 2)), view)
    assert (kept.rows, kept.admitted, kept.evicted, kept.reread) == (4, 1, 0, 1)
    assert kept.bytes == keeper.nbytes


def test_a_round_that_is_broken_off_reads_the_most_wanted_and_the_next_round_reads_the_others(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "master")
    publish(store, table(range(1_000)))
    keeper = FrontStageKeeper(tmp_path / "hot", CONFIG)
    ready(keeper, store)
    wanted = learned(*((key, 1 + key) for key in range(200)))
    with store.open() as view:
        assert keeper.learn(wanted, view, lambda: False).admitted == 64
        assert sorted(names(ready(keeper, store) or pytest.fail("nothing kept"))) == list(range(136, 200))
        assert keeper.learn(learned((900, 5)), view).admitted == 137
    assert sorted(names(ready(keeper, store) or pytest.fail("nothing kept"))) == [*range(200), 900]


def test_a_new_version_is_not_waited_for_longer_than_it_may_take_and_its_rows_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PageStore(tmp_path / "master")
    publish(store, table(range(1_000)))
    keeper = FrontStageKeeper(tmp_path / "hot", CONFIG)
    ready(keeper, store)
    with store.open() as view:
        keeper.learn(learned(*((key, 1 + key) for key in range(200))), view)
    refresh(store, table(range(200), "renamed"), at=1)
    monkeypatch.setattr(keeper_module, "FOLLOW_S", 0.0)
    keeper = FrontStageKeeper(tmp_path / "hot", CONFIG)  # one that knows nothing of the store's pace
    assert len(names(ready(keeper, store) or pytest.fail("nothing kept"))) == 64
    with store.open() as view:
        keeper.learn(learned((900, 5)), view)
    found = names(ready(keeper, store) or pytest.fail("nothing kept"))
    assert found == {**{key: f"renamed {key}" for key in range(200)}, 900: "customer 900"}


def test_the_keeper_stays_within_its_bytes(tmp_path: Path) -> None:
    store = PageStore(tmp_path / "master")
    publish(store, table(range(5_000)))
    keeper = FrontStageKeeper(tmp_path / "hot", FrontStageConfig(60_000))
    ready(keeper, store)
    rng = np.random.default_rng(2)
    for _ in range(20):
        keys = np.unique(rng.integers(0, 5_000, 800))
        with store.open() as view:
            keeper.learn(KeyFrequencies(pa.array(keys), rng.integers(1, 9, len(keys)), 3_000), view)
        assert keeper.nbytes <= 60_000
    hot = ready(keeper, store)
    assert hot is not None
    assert 50 < hot.rows.num_rows < 1_000


def test_keys_that_wait_to_be_read_are_forgotten_when_keys_get_another_type(tmp_path: Path) -> None:
    keeper, rows = FrontStageKeeper(tmp_path / "front", CONFIG), table(range(1_000, 1_100))
    as_text = rows.set_column(0, "id", rows["id"].cast(pa.string()))
    numbers, texts = (MemoryMaster(one, "id", page_rows=50) for one in (rows, as_text))
    keeper.ready(numbers, "a", rows.schema)
    keeper.learn(learned(*((key, 1) for key in range(500))), numbers, lambda: False)
    assert not len(keeper), "no row of the first bite's keys exists"
    keeper.ready(texts, "b", as_text.schema)
    keeper.learn(KeyFrequencies(pa.array(["1000"]), np.array([1], np.int64), 1), texts)
    assert len(keeper) == 1
