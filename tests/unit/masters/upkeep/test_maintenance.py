"""Care of master pages on a real Postgres: publishing, refreshing, tidying, pruning, and what may not go wrong."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from etl import settings as configuration
from etl.adapters import postgres
from etl.contract.load import load_all
from etl.contract.model import Master
from etl.enrich.build import build
from etl.enrich.planning.auto import AutoTactic
from etl.enrich.spec import JoinSpec
from etl.masters import explanation
from etl.masters.front_stage.keeper import divided
from etl.masters.masters import page_store, store_name
from etl.masters.pages.store import PageStore
from etl.masters.upkeep import maintenance
from etl.masters.upkeep.maintenance import ReadDirectly, UnknownMaster
from etl.masters.upkeep.status import status
from etl.masters.wiring import masters_of
from etl.pipeline.tasks.enrich import EnrichPlan
from etl.settings import PROJECT, Settings

PIPELINES = PROJECT / "warehouse" / "pipelines"
CUSTOMER, PRODUCT = load_all(PIPELINES, PROJECT).pipelines[0].masters
CUSTOMERS = """
insert into master.customers
select n, 'c' || n, 'street', 'nation', 'region', 'gold', '123', n / 4.0, now() from generate_series(1, 3000) n
"""
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def own(tmp_path: Path, database: str) -> Settings:
    run(database, CUSTOMERS)
    return configuration.load(home=tmp_path, var=tmp_path / "var", master_pages=tmp_path / "master")


def run(dsn: str, query: str) -> list[Any]:
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def log_size(dsn: str) -> int:
    ((count,),) = run(dsn, "select count(*) from master.change_log where table_name = 'master.customers'")
    return int(count)


def store(own: Settings, master: Master = CUSTOMER) -> PageStore:
    return page_store(own.master_pages / store_name(master))


def quiet(_: str) -> None:
    """What is said does not matter."""


# --- publish and refresh


def test_publishing_reads_all_rows_and_tells_how_many_so_far(own: Settings, database: str) -> None:
    seen: list[int] = []
    brought = maintenance.publish(own, database, CUSTOMER, seen.append)
    assert (brought.rows, brought.version, brought.whole, brought.changed) == (3000, 1, True, None)
    assert seen == sorted(seen)
    assert seen[-1] == 3000
    assert brought.bytes == store(own).manifest().size_bytes > 0


def test_the_first_refresh_publishes_and_says_so_and_the_next_reads_only_changes(own: Settings, database: str) -> None:
    said: list[str] = []
    assert maintenance.refresh(own, database, CUSTOMER, said.append).whole
    assert "for the first time" in said[0]
    run(database, "update master.customers set market_segment = 'none' where customer_id <= 7")
    run(database, "delete from master.customers where customer_id = 3000")
    brought = maintenance.refresh(own, database, CUSTOMER, said.append)
    assert (brought.whole, brought.changed, brought.rows) == (False, 8, 2999)
    assert "8 rows named as changed" in brought.sentence


def test_a_refresh_that_cannot_follow_publishes_whole_and_says_why(own: Settings, database: str) -> None:
    maintenance.publish(own, database, CUSTOMER)
    run(database, "truncate master.customers")
    said: list[str] = []
    brought = maintenance.refresh(own, database, CUSTOMER, said.append)
    assert (brought.whole, brought.rows) == (True, 0)
    assert "truncated or changed in bulk" in said[0]


# --- tidy


def changed_often(own: Settings, database: str, times: int) -> None:
    maintenance.publish(own, database, CUSTOMER)
    for number in range(times):
        run(database, f"update master.customers set name = 'n{number}' where customer_id = {number + 1}")
        maintenance.refresh(own, database, CUSTOMER, quiet)


def test_few_changes_are_folded_only_when_forced(own: Settings, database: str) -> None:
    changed_often(own, database, 1)
    assert maintenance.compact_and_collect(own, CUSTOMER, NOW).folded == 0
    tidied = maintenance.compact_and_collect(own, CUSTOMER, NOW, force=True)
    assert (tidied.folded, store(own).manifest().overlays) == (1, ())
    with store(own).open() as view:
        assert view.page_count() > 0
        assert view.manifest.rows == 3000


def test_many_changes_are_folded_when_due(own: Settings, database: str) -> None:
    maintenance.publish(own, database, CUSTOMER)
    run(database, "update master.customers set name = 'new' where customer_id <= 400")
    maintenance.refresh(own, database, CUSTOMER, quiet)
    assert status(own, CUSTOMER, NOW).compaction_due
    assert maintenance.compact_and_collect(own, CUSTOMER, NOW).folded == 1
    assert not status(own, CUSTOMER, NOW).compaction_due


def test_old_versions_go_unless_somebody_has_pinned_them_lately(own: Settings, database: str) -> None:
    changed_often(own, database, 4)
    store(own).pin("batch 1", NOW, 1)
    store(own).pin("batch 0", NOW - timedelta(days=3), 2)
    tidied = maintenance.compact_and_collect(own, CUSTOMER, NOW)
    assert tidied.removed_versions == (2, 3), "1 is pinned, the pin on 2 is of a dead batch"
    assert store(own).versions() == [1, 4, 5]


def test_a_batch_that_is_done_does_not_fail_because_somebody_publishes(own: Settings, database: str) -> None:
    with ExitStack() as publishing:
        with masters_of(own, [CUSTOMER, PRODUCT], database).pinned("batch 7", NOW, quiet):
            assert store(own, PRODUCT).pins.of("batch 7") is not None
            publishing.enter_context(store(own).writing(0.0))
        assert store(own).pins.of("batch 7") is None
        assert store(own, PRODUCT).pins.of("batch 7") is None


# --- prune


def test_the_change_log_keeps_what_the_oldest_kept_version_has_not_read(own: Settings, database: str) -> None:
    changed_often(own, database, 3)
    before = log_size(database)
    pruned = maintenance.prune(own, database, CUSTOMER, NOW)
    assert log_size(database) == before - pruned == 3, "version 1 is still kept, three changes came after it"
    maintenance.compact_and_collect(own, CUSTOMER, NOW)
    assert maintenance.prune(own, database, CUSTOMER, NOW) == 2, "now version 3 is the oldest"
    assert not maintenance.refresh(own, database, CUSTOMER, quiet).whole, "the log still serves us"


@pytest.mark.parametrize(
    "elsewhere", [{"server": "another"}, {}], ids=["another server", "a future undone by a backup"]
)
def test_a_position_that_is_not_of_this_history_prunes_nothing(
    own: Settings, database: str, elsewhere: dict[str, str]
) -> None:
    maintenance.publish(own, database, CUSTOMER)
    here, far = store(own).manifest(), {**elsewhere, "snapshot": "900000000:900000000:"}
    with store(own).writing(0.0):
        store(own).commit(replace(here, version=2, position={**here.position, **far}))
    store(own).collect(NOW, keep=1)
    before = log_size(database)
    assert (maintenance.prune(own, database, CUSTOMER, NOW), log_size(database)) == (0, before)
    assert maintenance.refresh(own, database, CUSTOMER, quiet).whole, "such a version cannot be followed"
    assert not maintenance.refresh(own, database, CUSTOMER, quiet).whole, "from now on changes are followed again"


def test_a_log_that_nobody_here_reads_does_not_grow_for_ever(own: Settings, database: str) -> None:
    direct = own.model_copy(update={"master_store": "direct"})
    run(database, "update master.change_log set changed_at = now() - interval '25 hours'")
    run(database, "update master.customers set name = 'new' where customer_id <= 5")
    assert maintenance.prune(direct, database, CUSTOMER, datetime.now(UTC)) == 3000
    assert log_size(database) == 5, "another site may follow the table: what is new stays a day"


# --- status, and what is refused


def test_a_master_stands_with_its_versions_pins_and_overlays(own: Settings, database: str) -> None:
    assert not status(own, CUSTOMER, NOW).as_json()["published"]
    maintenance.publish(own, database, CUSTOMER)
    run(database, "delete from master.customers where customer_id = 1")
    maintenance.refresh(own, database, CUSTOMER, quiet)
    store(own).pin("batch 7", NOW, 1)
    result = status(own, CUSTOMER, datetime.now(UTC) + timedelta(hours=1)).as_json()
    assert (result["version"], result["rows"], result["versions"]) == (2, 2999, [1, 2])
    assert (result["overlays"], result["overlay_rows"], result["tombstones"]) == (1, 1, 1)
    assert result["pins"] == [{"owner": "batch 7", "version": 1, "since": NOW.isoformat()}]
    assert 3600 <= result["age_s"] < 3700
    assert result["disk_bytes"] > result["bytes"]
    assert result["source"].keys() == {"follow", "snapshot", "quiet_since"}


def test_a_damaged_manifest_is_part_of_the_status(own: Settings, database: str) -> None:
    maintenance.publish(own, database, CUSTOMER)
    (own.master_pages / store_name(CUSTOMER) / "versions" / "00000001.json").write_text("{}")
    assert "manifest 00000001.json is damaged" in str(status(own, CUSTOMER, NOW).trouble)


def test_an_unknown_master_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownMaster, match=r"'clients' is not a master; .* customer, product"):
        maintenance.chosen([CUSTOMER, PRODUCT], ["product", "clients"])
    assert maintenance.chosen([CUSTOMER, PRODUCT], ["product", "product"]) == (PRODUCT,)
    assert maintenance.chosen([CUSTOMER, PRODUCT], []) == (CUSTOMER, PRODUCT)


@pytest.mark.parametrize("work", ["publish", "refresh", "compact"])
def test_nothing_is_published_where_masters_are_read_directly(own: Settings, work: str) -> None:
    direct = own.model_copy(update={"master_store": "direct"})
    with pytest.raises(ReadDirectly, match="read directly where they are kept"):
        maintenance.run(direct, lambda: "", work, "customer", quiet)
    assert not own.master_pages.exists()


# --- explanation


@pytest.mark.parametrize("tactic", ["auto", "cinlj", "chybridjoin", "meshjoin"])
def test_the_memory_that_is_explained_is_the_memory_the_joins_get(own: Settings, database: str, tactic: Any) -> None:
    maintenance.publish(own, database, CUSTOMER)
    mine = own.model_copy(update={"tactic": tactic})
    with store(own).open() as ports:
        result = explanation.explain(mine, 2, "customer", ports, tuples=2000)
        plan = EnrichPlan((), tactic, divided(own.budget_bytes, 2, JoinSpec.named(tactic))[1])
        ways: dict[str, Any] = {"lookup": ports, "scan": ports, "index": ports}
        sizes = {"budget_bytes": plan.budget_bytes, "lookup_tuples": plan.lookup_tuples}
        real = build(tactic, **ways, **sizes, front_elsewhere=True)
    assert (result.front_bytes > 0) == (tactic != "meshjoin")
    if isinstance(real.tactic, AutoTactic):
        assert dict(result.sizes) == dict(real.tactic.sizes)
    else:
        (size,) = result.sizes.values()
        assert real.tactic.room == (size.capacity or size.lookup_tuples)


def test_real_keys_are_priced_as_many_as_were_asked_for(own: Settings, database: str) -> None:
    maintenance.publish(own, database, CUSTOMER)
    with store(own).open() as ports:
        result = explanation.explain(own, 2, "customer", ports, tuples=900, keys=300)
        everyone = explanation.explain(own, 2, "customer", ports, tuples=900, keys=900_000)
    assert (result.choice.tuples, result.choice.keys, result.rows) == (900, 300, 3000)
    assert result.choice.seconds[result.choice.name] == min(result.choice.seconds.values())
    assert set(result.choice.seconds) == {"inlj", "hybridjoin", "meshjoin"}
    assert everyone.choice.tuples == 3000, "a master has no more keys than rows"


def test_an_empty_master_is_explained_too(own: Settings, database: str) -> None:
    maintenance.publish(own, database, PRODUCT)
    with store(own, PRODUCT).open() as ports:
        result = explanation.explain(own, 2, "product", ports)
    assert (result.rows, result.choice.keys, result.front_rows) == (0, 0, 0)
