"""A master row that does not come: the event is a fact with the unknown member, corrected when it comes after all."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import Any

import pytest

from etl.contract.errors import PipelineFileError
from tests.support.desk import says
from tests.support.site import COPY_CUSTOMER, STRICT, Ended, Site, order

UNKNOWN = ("grace =", 'after_grace = "unknown"\ngrace =')
SALES = "select region, orders, quantity, amount from mart.daily_sales order by region nulls last"


def patient(site: Site, *edits: tuple[str, str], add: str = "") -> Site:
    """The site after order 1 has waited for customer 77 in vain; order 2 is an ordinary one of customer 1."""
    lenient = site.redeclared(UNKNOWN, *edits, add=add)
    lenient.land("a.jsonl", order(1, customer_id=77, quantity=1), order(2, quantity=1))
    lenient.run()
    assert lenient.later(timedelta(days=8)).run() is not None
    return lenient


def comes(site: Site) -> None:
    site.execute(COPY_CUSTOMER, 77)


def facts(site: Site) -> dict[int, dict[str, Any]]:
    return {row["order_id"]: row for row in site.rows("fact").to_pylist()}


def check_corrected(site: Site) -> None:
    """Fact, dimension, both tables of the mart and every count are as if the customer had been there at once."""
    fact = facts(site)[1]
    keys = {row["customer_id"]: row["customer_key"] for row in site.rows("dim_customer").to_pylist()}
    assert fact["customer_key"] == keys[77]
    ((region, *_),) = site.execute("select region, nation from mart.orders where order_id = 1")
    assert region is not None
    groups = site.execute(SALES)
    assert all(row[0] is not None for row in groups), "nothing is left in the group of nobody"
    assert sum(row[1] for row in groups) == len(facts(site))
    counted = site.inventory()
    assert counted.faults == []
    assert (counted.fact, counted.quarantine, counted.backlog_open) == (2, 0, 0)


def test_an_event_whose_master_row_did_not_come_is_a_fact_with_the_unknown_member(site: Site) -> None:
    lenient = patient(site)
    assert facts(lenient)[1]["customer_key"] == 0
    (member,) = [row for row in lenient.rows("dim_customer").to_pylist() if row["customer_key"] == 0]
    assert (member["customer_id"], member["region"], member["is_current"]) == (None, None, True)
    assert lenient.execute("select customer_name, customer_id from mart.orders where order_id = 1") == [(None, 77)]
    assert [row[:2] for row in lenient.execute(SALES)][-1] == (None, 1)
    assert lenient.record(2).counts.unknown == 1
    counted = lenient.inventory()
    assert (counted.faults, counted.fact, counted.quarantine, counted.backlog_open) == ([], 2, 0, 0)


def test_it_is_corrected_in_fact_and_mart_when_the_row_comes(site: Site) -> None:
    lenient = patient(site)
    assert lenient.decide() is None, "nothing has come yet"
    comes(lenient)
    batch = lenient.run()
    assert batch == 3
    counts = lenient.record(3).counts
    assert (counts.corrected, counts.accepted, counts.lines, counts.backlog_resolved) == (1, 0, 0, 0)
    check_corrected(lenient)
    assert facts(lenient)[1]["batch"] == 2, "the batch in which it came stays"
    assert lenient.decide() is None


def test_an_unknown_event_that_is_sent_again_is_a_duplicate_and_its_key_is_taken(site: Site) -> None:
    lenient = patient(site)
    lenient.land("b.jsonl", order(1, customer_id=77, quantity=1), order(1, customer_id=1))
    lenient.run()
    counted = lenient.inventory()
    assert (counted.faults, counted.fact, counted.duplicates, counted.quarantine) == ([], 2, 1, 1)


@pytest.mark.parametrize(
    "point", ["before the decision", "before the fact is corrected", "after the fact is corrected",
              "after the mart is loaded"],
)  # fmt: skip
def test_a_correction_that_ends_in_between_is_finished_by_the_next_run(site: Site, point: str) -> None:
    lenient = patient(site)
    comes(lenient)
    with pytest.raises(Ended):
        lenient.ending(point).run()
    lenient.restarted().run()
    check_corrected(lenient)


def test_a_fact_table_restored_from_before_is_corrected_again(site: Site) -> None:
    lenient = patient(site)
    folder, kept = lenient.settings.warehouse / "orders" / "fact", lenient.settings.var / "kept"
    shutil.copytree(folder, kept)
    comes(lenient)
    lenient.run()
    shutil.rmtree(folder)
    kept.rename(folder)
    again = lenient.restarted()
    assert facts(again)[1]["customer_key"] == 0
    assert again.decide() is None
    check_corrected(again)


def test_held_events_with_unknown_members_are_corrected_after_their_release(site: Site) -> None:
    lenient = site.redeclared(UNKNOWN, ("deadline =", 'held = "go_on"\ndeadline ='), add=STRICT)
    lenient.land("a.jsonl", order(1, customer_id=77), order(2, quantity=1))
    lenient.run()
    lenient.later(timedelta(days=8)).run()
    assert (lenient.inventory().held, lenient.inventory().faults) == (1, [])
    comes(lenient)
    assert lenient.decide() is None, "it is not in the fact, so there is nothing to correct"
    says(lenient, 2, "released")
    lenient.run()
    assert facts(lenient)[1]["customer_key"] == 0
    assert lenient.run() == 4, "the row had come before the release: nobody will tell again"
    check_corrected(lenient)


@pytest.mark.parametrize("word", ["released", "rejected"])
def test_corrections_of_a_batch_that_is_set_aside_are_loaded_and_its_own_events_wait(site: Site, word: str) -> None:
    strict = patient(site, ("deadline =", 'held = "go_on"\ndeadline ='), add=STRICT)
    comes(strict)
    strict.land("b.jsonl", order(1, customer_id=77, quantity=1), order(3))  # the first is sent once more
    assert strict.run() == 3
    counted = strict.inventory()
    assert (counted.faults, counted.fact, counted.held, counted.duplicates) == ([], 2, 1, 1)
    assert all(row[0] is not None for row in strict.execute(SALES)), "nothing is left in the group of nobody"
    assert strict.execute("select sum(orders) from mart.daily_sales") == [(2,)]
    says(strict, 3, word)
    strict.land("c.jsonl", order(4, quantity=1))
    strict.run()
    facts_then = 4 if word == "released" else 3
    assert (strict.inventory().faults, strict.inventory().fact) == ([], facts_then)
    assert strict.execute("select sum(orders) from mart.daily_sales") == [(facts_then,)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('amount = "sum(amount)"\nlargest = "max(amount)"', "nothing can be taken out of max"),
        ('amount = "sum(amount)"', "only a count"),
    ],
)
def test_aggregates_that_cannot_be_corrected_are_refused(site: Site, given: str, said: str) -> None:
    edits = [UNKNOWN, ('amount = "sum(amount)"', given)]
    if "count" in said:
        edits.append(('orders = "count(*)"', ""))
    with pytest.raises(PipelineFileError, match=said):
        site.redeclared(*edits).run()
