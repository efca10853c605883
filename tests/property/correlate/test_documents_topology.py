"""All joinable pairs of a window, each once, whatever becomes of the partitions on the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from etl.correlate.documents.joining.joiner import Joiner
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.assigner import assign, update
from etl.correlate.documents.partitioning.partitions import Partitions, holds, words
from etl.correlate.documents.partitioning.planner import choose_routing, make_partitions
from etl.correlate.documents.partitioning.routing import Routing, expansion, route
from etl.correlate.documents.topology import Topology, TopologyOptions
from tests.support.documents_strategies import ANY_ROWS, UBIQUITOUS_ROWS, batches, documents, listed, oracle

Rows = list[dict[str, str]]
OPTIONS = st.builds(
    TopologyOptions,
    partitions=st.sampled_from([1, 2, 3, 5, 8, 63, 64, 65, 130]),
    creators=st.integers(1, 4),
    assigners=st.integers(1, 4),
    method=st.sampled_from(["ag", "sc", "ds"]),
    routing=st.sampled_from(["planned", "expansion"]),
    delta=st.integers(1, 3),
    theta=st.sampled_from([0.0, 0.2, 0.6]),
)


def rows_of(seed: int) -> Rows:
    """Documents of which some lack "k", "x" or "y". Small cases, which hypothesis would prefer, hardly ever meet."""
    draw = np.random.default_rng(seed)
    shares = {"k": draw.choice([0.1, 0.5, 0.9]), "x": draw.choice([0.3, 0.7, 1.0]), "y": 0.8, "a": 0.2, "b": 0.2}
    values = {"k": 4, "x": 3, "y": 2, "a": 2, "b": 2}
    return [
        {name: str(draw.integers(values[name])) for name, share in shares.items() if draw.random() < share}
        for _ in range(30)
    ]


def joined(found: Documents, masks: np.ndarray, partitions: int) -> list[tuple[int, int]]:
    """What all joiners make of an assignment."""
    made = []
    for number in range(partitions):
        here = np.flatnonzero(holds(masks, number))
        made += listed(Joiner(number, 1 << 30).insert(found.take(here), masks[here]).pairs)
    return sorted(made)


@given(OPTIONS, st.lists(ANY_ROWS, min_size=1, max_size=3), st.lists(st.integers(0, 24), max_size=3))
def test_every_window_is_joined_exactly_however_it_is_partitioned(
    options: TopologyOptions, windows: list[Rows], cuts: list[int]
) -> None:
    topology = Topology(options)
    for rows in windows:
        found = documents(rows)
        made = [pair for batch in batches(found, cuts) for pair in listed(topology.insert(batch).pairs)]
        assert sorted(made) == oracle(found)
        if not len(found) and not topology.in_force:
            continue
        report = topology.end_window()
        assert (report.found, report.kept) == (len(made), len(made))
        assert report.quality.documents == len(found)


@given(OPTIONS, ANY_ROWS, ANY_ROWS, st.lists(st.integers(0, 24), min_size=1, max_size=4), st.sampled_from([1, 4, 70]))
def test_a_repartition_in_the_middle_of_a_window_loses_and_doubles_nothing(
    options: TopologyOptions, rows: Rows, other: Rows, cuts: list[int], partitions: int
) -> None:
    topology, found = Topology(options), documents(rows)
    made = []
    for batch in batches(found, cuts):
        made += listed(topology.insert(batch).pairs)
        # The new partitions come of documents that may have nothing in common with these, and may be more or fewer.
        topology.options = TopologyOptions(partitions=partitions, method=options.method, routing=options.routing)
        topology.repartition(documents(other))
    assert sorted(made) == oracle(found)
    if len(found):
        assert topology.end_window().quality.documents == len(found)
        assert len(topology.in_force) == 1, "old partitions go with their window"


def test_documents_of_old_and_new_partitions_meet_although_neither_alone_would_bring_them_together() -> None:
    found = documents([{"user": str(number % 12), "n": str(number)} for number in range(48)])
    heavy = documents([{"user": str(12 - number % 12)} for number in range(30)] + [{"user": "3"}] * 9)
    topology = Topology(TopologyOptions(partitions=4, delta=99))
    old = topology.repartition(documents([{"user": str(number % 12)} for number in range(48)]))
    first, second = batches(found.without(np.array([1], np.int32)), [24])
    made = listed(topology.insert(first).pairs)
    new = topology.repartition(heavy)
    made += listed(topology.insert(second).pairs)
    assert sorted(made) == oracle(found.without(np.array([1], np.int32)))
    before, after = assign(first, [old]).masks, assign(second, [new]).masks
    apart = [
        (one, two) for one in range(24) for two in range(24) if one % 12 == two % 12 and not before[one] & after[two]
    ]
    assert apart, "the partitions must differ, or this shows nothing"


@given(ANY_ROWS, st.data(), st.sampled_from([1, 3, 66]))
def test_any_partitions_whatsoever_join_exactly(rows: Rows, data: st.DataObject, count: int) -> None:
    found = documents(rows)
    hashes = found.dictionary.hashes
    chosen = data.draw(st.lists(st.booleans(), min_size=len(hashes), max_size=len(hashes)))
    known = hashes[np.array(chosen, np.bool_)] if len(hashes) else hashes
    bit = st.integers(1, 2**count - 1)
    drawn = data.draw(st.lists(bit, min_size=len(known), max_size=len(known)))
    masks = np.array(
        [[mask >> (64 * word) & (2**64 - 1) for word in range(words(count))] for mask in drawn], np.uint64
    ).reshape(len(known), words(count))
    partitions = Partitions.of(Routing(), count, known, masks, np.zeros(count, np.int64))
    assert joined(found, assign(found, [partitions]).masks, count) == oracle(found)


@given(
    st.one_of(ANY_ROWS, UBIQUITOUS_ROWS),
    st.lists(st.sampled_from("abuv"), max_size=3, unique=True),
    st.booleans(),
    st.integers(1, 5),
)
def test_any_key_routes_exactly_alone_or_beside_the_other_pairs(
    rows: Rows, key: list[str], alone: bool, count: int
) -> None:
    found, routing = documents(rows), Routing(tuple(key), alone)
    partitions = make_partitions(found, routing, count, creators=2)
    assert joined(found, assign(found, [partitions]).masks, count) == oracle(found)


@given(
    st.integers(0, 2**32),
    st.integers(0, 2**32),
    st.sampled_from(["k", "k", "ka"]),
    st.sampled_from(["x", "xy", "yx", "xa", "ayx", "kx"]),
    st.sampled_from([2, 5, 70]),
)
def test_documents_without_the_key_meet_all_their_partners_by_any_meeting_attributes(
    seed: int, sample: int, key: str, meeting: str, count: int
) -> None:
    found, other = documents(rows_of(seed)), documents(rows_of(sample))
    routing = Routing(tuple(key), meeting=tuple(meeting))
    partitions = make_partitions(other, routing, count, creators=2)
    masks = [np.zeros((0, words(count)), np.uint64)]
    for batch in batches(found, [10, 11]):  # values are taken in between, as an assigner does
        assignment = assign(batch, [partitions])
        masks.append(assignment.masks)
        partitions = update(partitions, route(batch, routing), np.unique(assignment.unseen))
    assert joined(found, np.concatenate(masks), count) == oracle(found)


def test_documents_without_the_key_go_to_few_partitions_and_so_do_their_partners() -> None:
    draw, rows = np.random.default_rng(7), []
    for _ in range(3_000):
        user = int(draw.integers(60))
        host = user if draw.random() < 0.9 else int(draw.integers(60))
        of_host = {"host": str(host)}, {"ip": str(host)}
        if draw.random() < 0.05:
            rows.append({**of_host[0], **of_host[1], "alarm": "1"})
        else:
            rows.append({"user": str(user), **of_host[draw.random() < 0.3]})
    found = documents(rows)
    routing = choose_routing(found, 20)
    assert (routing.key, set(routing.meeting)) == (("user",), {"host", "ip"})
    near = assign(found, [make_partitions(found, routing, 20)])
    far = assign(found, [make_partitions(found, Routing(("user",)), 20)])
    assert (near.broadcast, far.broadcast) == (0, sum("user" not in row for row in rows))
    assert near.quality.replication < 1.15 < 1.8 < far.quality.replication
    assert near.quality.maximal_load < far.quality.maximal_load
    assert joined(found, near.masks, 20) == oracle(found)


def test_more_documents_without_the_key_than_partners_leave_the_partners_to_travel() -> None:
    """Whoever is fewer goes to the others: 200 alarms of a host stay at one place, six users come there."""
    rows = [{"host": "h", "user": str(number % 6)} for number in range(12)]
    rows += [{"host": "h", "alarm": str(number)} for number in range(200)]
    found, routing = documents(rows), Routing(("user",), meeting=("host",))
    partitions = make_partitions(found, routing, 6)
    loads = assign(found, [partitions]).quality.loads
    assert sorted(loads.tolist()) == [2, 2, 2, 2, 2, 212]
    assert joined(found, assign(found, [partitions]).masks, 6) == oracle(found)


@given(UBIQUITOUS_ROWS, st.integers(2, 30))
def test_expansion_combines_until_there_are_enough_values_or_no_attributes_left(rows: Rows, count: int) -> None:
    assume(rows)
    found = documents(rows)
    routing = expansion(found, count)
    values = {attribute: {row[attribute] for row in rows} for attribute in "uv"}
    everywhere = [name for name in {key for row in rows for key in row} if all(name in row for row in rows)]
    disabling = [name for name in everywhere if len({row[name] for row in rows}) < count]
    assert bool(routing.key) == bool(disabling)
    assert not routing.alone or not routing.key
    if routing.key:
        combined = {
            tuple(row[part] for part in routing.key) for row in rows if all(part in row for part in routing.key)
        }
        all_attributes = {key for row in rows for key in row}
        assert len(combined) >= count or set(routing.key) == all_attributes
        shorter = routing.key[:-1]
        fewer = {tuple(row[part] for part in shorter) for row in rows if all(part in row for part in shorter)}
        assert len(fewer) < count, "no more attributes than are needed"
        assert routing.key[0] in disabling
    assert len(values["u"]) <= 2


def test_expansion_takes_no_attribute_that_it_does_not_need() -> None:
    rows = [{"u": str(i % 2), "v": str(i % 6), "w": str(i), "x": str(i)} for i in range(24)]
    assert expansion(documents(rows), 2) == Routing()
    assert expansion(documents(rows), 3).key == ("u", "v")
    assert expansion(documents(rows), 7).key == ("u", "v", "w")


def test_a_new_value_goes_everywhere_until_it_was_sighted_delta_times() -> None:
    topology = Topology(TopologyOptions(partitions=4, delta=3))
    found = documents([{"user": str(number % 8)} for number in range(40)] + [{"user": "new"}] * 5)
    topology.insert(found.take(np.arange(40)))
    broadcast = []
    for number in range(40, 45):
        topology.insert(found.take(np.array([number])))
        broadcast.append(topology.window[-1].broadcast)
    assert broadcast == [1, 1, 1, 0, 0]
    report = topology.end_window()
    assert (report.broadcast, report.updates) == (3, 1)


def test_a_window_worse_than_its_partitions_had_promised_is_followed_by_new_ones() -> None:
    topology, old, new = Topology(TopologyOptions(partitions=4, delta=99)), range(8), range(20, 28)

    def window(users: range) -> tuple[bool, float]:
        topology.insert(documents([{"user": str(users[number % 8])} for number in range(40)]))
        report = topology.end_window()
        return report.repartition, report.quality.replication

    assert window(old) == (False, 1.0)
    assert window(new) == (True, 4.0), "all values are new"
    assert window(new) == (False, 4.0), "its documents are the sample"
    assert window(new) == (False, 1.0), "the new partitions are in force"


@given(UBIQUITOUS_ROWS, st.integers(1, 6))
def test_a_key_alone_sends_a_document_to_one_partition_or_to_all(rows: Rows, count: int) -> None:
    assume(rows)
    found = documents(rows)
    partitions = make_partitions(found, Routing(("u", "v")), count)
    sent = assign(found, [partitions]).quality.loads.sum()
    assert sent == len(found), "every document has the key here"
    assert not route(found, Routing(("u", "v"))).broadcast.any()


def test_the_planner_prefers_a_key_that_everybody_has_to_routing_by_all_pairs() -> None:
    draw = np.random.default_rng(5)
    rows = [
        {"host": str(draw.integers(40)), "file": str(number), "kind": str(draw.integers(3))} for number in range(600)
    ]
    assert choose_routing(documents(rows), 4).key[0] == "host", "files are new every time, kinds are too few"


@pytest.mark.parametrize("method", ["ag", "sc", "ds"])
def test_partitions_do_not_depend_on_the_process(method: str) -> None:
    rows = [{"a": str(number % 7), "b": str(number % 3)} for number in range(60)]
    options = TopologyOptions(partitions=4, method=method, routing="expansion")  # type: ignore[arg-type]
    one, other = (Topology(options).repartition(documents(rows)) for _ in range(2))
    assert one.hashes.tolist() == other.hashes.tolist()
    assert one.masks.tolist() == other.masks.tolist()
