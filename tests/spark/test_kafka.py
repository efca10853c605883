"""Events from a topic, end to end: a real broker, Spark's source, and every message in exactly one place."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from etl.adapters import ledger
from etl.adapters.kafka.errors import KafkaUnavailable, OffsetsGone, TopicMissing, TopicRecreated
from etl.pipeline.inspection.event_trace import Tracer
from etl.pipeline.prepare import Preparer
from etl.settings import PROJECT
from tests.support.kafka_broker import KafkaBroker, kafka_broker
from tests.support.site import Ended, Site, order

pytestmark = [pytest.mark.spark, pytest.mark.slow]
_TOPICS = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"orders.{next(_TOPICS)}"


def reading(site: Site, broker: KafkaBroker, topic: str, more: str = "") -> Site:
    """The site, whose orders come from a topic."""
    source = f'source = {{ topic = "{topic}", servers = "{broker.servers}"{more} }}'
    return site.redeclared(('source = { landing = "landing/orders", format = "jsonl" }', source))


def offsets(site: Site, batch: int) -> list[tuple[str, int, int]]:
    with ledger.reading(site.dsn, site.pipeline) as book:
        return [(one.file.label, one.first, one.last) for one in book.slices(batch)]


def test_batches_take_exactly_the_offsets_after_those_of_the_last_one(
    site: Site, broker: KafkaBroker, topic: str
) -> None:
    site = reading(site, broker, topic)
    broker.create(topic, 2)
    broker.send(topic, *[order(n) for n in range(1, 6)])
    broker.send(topic, order(6), partition=1)
    assert site.run() == 1
    assert offsets(site, 1) == [(f"{topic}/0", 0, 5), (f"{topic}/1", 0, 1)]
    broker.send(topic, order(7), order(1), {**order(8), "order_id": "none of these"})
    assert site.run() == 2
    assert offsets(site, 2) == [(f"{topic}/0", 5, 8)]
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    assert site.record(2).counts.duplicates == 1
    assert site.run() is None, "there is nothing beyond"
    assert site.inventory().faults == []
    assert site.inventory().raw_lines == 9


def test_a_topic_is_read_as_the_guide_declares_it(site: Site, broker: KafkaBroker) -> None:
    page = (PROJECT / "docs" / "how-to" / "kafka.md").read_text()
    (source,) = re.findall(r"^source = .*$", page, re.MULTILINE)
    own = source.replace("broker-1:9092,broker-2:9092", broker.servers)
    broker.create("orders")
    broker.send("orders", order(1))
    read = site.redeclared(('source = { landing = "landing/orders", format = "jsonl" }', own))
    assert read.run() == 1
    assert offsets(read, 1) == [("orders/0", 0, 1)]


def test_messages_that_are_no_events_are_refused_under_their_offsets(
    site: Site, broker: KafkaBroker, topic: str
) -> None:
    site = reading(site, broker, topic)
    broker.create(topic)
    spread = json.dumps(order(2), indent=2).encode()
    broker.send(topic, order(1), None, b"", b"no json", b'{"order_id": 9', spread, b"\xff", b"x" * 70_000, order(3))
    assert site.run() == 1
    refused = {row["line"]: row for row in site.rows("quarantine").to_pylist()}
    assert {line: row["reasons"] for line, row in refused.items()} == {
        1: ["tombstone"],
        2: ["malformed_json"],
        3: ["malformed_json"],
        4: ["malformed_json"],
        6: ["bad_utf8"],
        7: ["line_too_long"],
    }
    assert {row["source_file"] for row in refused.values()} == {f"{topic}/0"}
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 2, 3]
    assert site.inventory().faults == []


def test_tombstones_are_no_events_when_that_is_declared(site: Site, broker: KafkaBroker, topic: str) -> None:
    site = reading(site, broker, topic, ', tombstones = "skip"')
    broker.create(topic)
    broker.send(topic, order(1), None)
    assert site.run() == 1
    assert (site.record(1).counts.lines, site.rows("quarantine").num_rows) == (1, 0)
    assert site.inventory().faults == []


@pytest.mark.parametrize(
    "checkpoint", ["after input is fixed", "after offsets are copied", "before the decision", "after the decision"]
)
def test_a_batch_that_was_killed_reads_the_same_offsets_again(
    site: Site, broker: KafkaBroker, topic: str, checkpoint: str
) -> None:
    site = reading(site, broker, topic)
    broker.create(topic)
    broker.send(topic, order(1), order(2))
    with pytest.raises(Ended):
        site.ending(checkpoint).run()
    broker.send(topic, order(3))
    assert site.restarted().run() == 1
    assert offsets(site, 1) == [(f"{topic}/0", 0, 2)]
    assert site.run() == 2
    assert offsets(site, 2) == [(f"{topic}/0", 2, 3)]
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 2, 3]
    assert site.inventory().faults == []


def test_what_is_copied_needs_the_broker_no_more(site: Site, broker: KafkaBroker, topic: str) -> None:
    site = reading(site, broker, topic)
    broker.create(topic)
    broker.send(topic, order(1), order(2))
    with pytest.raises(Ended):
        site.ending("after offsets are copied").run()
    broker.forget(topic, 2)
    assert site.restarted().run() == 1
    assert site.inventory().faults == []
    (copy,) = site.places.archive.glob("*/*.kafka.arrow")
    copy.unlink()
    assert site.inventory().faults[0] == f"the archive lacks {topic}/0 0 to 1: these offsets cannot be counted again"


def test_offsets_that_are_gone_stop_the_run_until_it_is_declared_that_they_may_be_lost(
    site: Site, broker: KafkaBroker, topic: str
) -> None:
    site = reading(site, broker, topic)
    broker.create(topic)
    broker.send(topic, order(1))
    assert site.run() == 1
    broker.send(topic, *[order(n) for n in range(2, 6)])
    with pytest.raises(Ended):
        site.ending("after input is fixed").run()
    broker.forget(topic, 3)
    with pytest.raises(OffsetsGone, match=f"{topic}/0 begins with offset 3 now, so offsets 1 to 2 are gone"):
        site.restarted().run()
    assert site.record(2).state == "reading", "nothing was decided"
    skipping = site.redeclared((" }\nkey", ', on_loss = "skip" }\nkey')).restarted()
    assert skipping.run() == 2
    assert offsets(skipping, 2) == [(f"{topic}/0", 3, 5)]
    assert (skipping.record(2).control or {})["lost"] == {f"{topic}/0": [1, 3]}
    assert sorted(skipping.rows("fact")["order_id"].to_pylist()) == [1, 4, 5]
    assert skipping.inventory().faults == []


def test_a_topic_that_was_made_anew_is_refused(site: Site, broker: KafkaBroker, topic: str) -> None:
    site = reading(site, broker, topic)
    with pytest.raises(TopicMissing, match=f"has no topic '{topic}'"):
        site.run()
    broker.create(topic)
    broker.send(topic, order(1), order(2))
    assert site.run() == 1
    broker.delete(topic)
    broker.create(topic)
    broker.send(topic, order(3), order(4), order(5))
    with pytest.raises(TopicRecreated, match=f"{topic}/0 is not what batches have read up to offset 2"):
        site.run()
    skipping = site.redeclared((" }\nkey", ', on_loss = "skip" }\nkey'))
    assert skipping.run() == 2
    assert sorted(skipping.rows("fact")["order_id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert skipping.inventory().faults == []


def test_reading_from_the_end_begins_where_the_topic_ended_at_the_first_run(
    site: Site, broker: KafkaBroker, topic: str
) -> None:
    site = reading(site, broker, topic, ', start = "latest"')
    broker.create(topic)
    broker.send(topic, order(1))
    assert site.run() == 1
    assert (offsets(site, 1), site.record(1).counts.lines) == ([(f"{topic}/0", 1, 1)], 0)
    broker.send(topic, order(2))
    assert site.run() == 2
    assert site.rows("fact")["order_id"].to_pylist() == [2]
    assert site.inventory().faults == []


def test_an_event_is_followed_to_its_offset(site: Site, broker: KafkaBroker, topic: str) -> None:
    site = reading(site, broker, topic)
    broker.create(topic)
    broker.send(topic, order(1), order(2), order(2))
    assert site.run() == 1
    declared = Preparer(site.settings, site.dsn).declared("orders")
    with ledger.reading(site.dsn, "orders") as book:
        found = Tracer(declared, site.places, book, site.dsn, ["2"]).trace(datetime.now(UTC))
    assert [(one.file, one.line, one.role) for one in found.landed] == [
        (f"{topic}/0", 1, "event"),
        (f"{topic}/0", 2, "duplicate"),
    ]


def test_csv_messages_have_the_declared_fields_in_their_order(site: Site, broker: KafkaBroker, topic: str) -> None:
    site = reading(site, broker, topic, ', format = "csv", delimiter = ";"')
    broker.create(topic)
    names = [one.source_name for one in Preparer(site.settings, site.dsn).declared("orders").stream.fields]
    event = {**order(1), "coupon": ""}
    broker.send(topic, ";".join(str(event.get(name, "")) for name in names).encode(), b"1;2")
    assert site.run() == 1
    assert site.rows("fact")["order_id"].to_pylist() == [1]
    assert site.rows("quarantine")["reasons"].to_pylist() == [["malformed_csv"]]


def test_a_broker_that_does_not_answer_is_told_in_a_sentence(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etl.adapters.kafka.broker._ANSWER_S", 1.0)
    site = reading(site, KafkaBroker("127.0.0.1:9"), "orders")
    with pytest.raises(KafkaUnavailable, match=r"Kafka at 127\.0\.0\.1:9 does not answer"):
        site.run()
