"""Which offsets a batch reads: the next ones, all of them in the end, and never past what is lost."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from etl.adapters.kafka.broker import TopicState
from etl.adapters.kafka.errors import OffsetsGone, TopicRecreated
from etl.adapters.kafka.offsets import Fixed, Position, Room, fix, is_due, require_held, unread
from etl.contract.model import Topic

NOW = datetime(2026, 11, 18, tzinfo=UTC)
ROOM = Room(1_000, 1_000)
STOP, SKIP = Topic("orders"), Topic("orders", on_loss="skip")


def state(*offsets: tuple[int, int], id: int = 7) -> TopicState:
    return TopicState(id, dict(enumerate(offsets)))


def fixed(topic: Topic, holds: TopicState, positions: dict[int, Position], room: Room = ROOM) -> Fixed:
    return fix(topic, holds.id, unread(topic, holds, positions), room, NOW, 0)


def ranges(found: Fixed) -> list[tuple[str, int, int]]:
    return [(one.file.label, one.first, one.last) for one in found.slices]


def test_the_next_batch_begins_where_the_last_one_ended() -> None:
    found = fixed(STOP, state((0, 9), (2, 5)), {0: Position(7, 4), 1: Position(7, 5)})
    assert ranges(found) == [("orders/0", 4, 9)]


def test_partitions_that_came_later_are_read_from_their_beginning_even_when_reading_began_at_the_end() -> None:
    late = Topic("orders", start="latest")
    found = fixed(late, state((0, 9), (0, 3)), {0: Position(7, 9)})
    assert ranges(found) == [("orders/1", 0, 3)]


def test_the_first_batch_writes_down_the_ends_from_which_reading_begins() -> None:
    late, holds = Topic("orders", start="latest"), state((0, 9), (2, 2))
    assert is_due(late, unread(late, holds, {}))
    assert ranges(fixed(late, holds, {})) == [("orders/0", 9, 9), ("orders/1", 2, 2)]
    assert not is_due(late, unread(late, holds, {0: Position(7, 9), 1: Position(7, 2)}))


def test_a_partition_that_is_new_and_empty_is_remembered_with_the_first_batch() -> None:
    assert fixed(STOP, state((0, 0)), {}).slices == ()
    assert ranges(fixed(STOP, state((0, 1), (0, 0)), {})) == [("orders/0", 0, 1), ("orders/1", 0, 0)]


def test_room_is_shared_by_what_waits_and_slices_are_cut() -> None:
    found = fixed(STOP, state((0, 900), (0, 100)), {}, Room(100, 40))
    assert ranges(found) == [
        ("orders/0", 0, 40),
        ("orders/0", 40, 80),
        ("orders/0", 80, 90),
        ("orders/1", 0, 10),
    ]
    assert [one.ordinal for one in found.slices] == [0, 1, 2, 3]


def test_all_is_read_in_the_end_whatever_the_room() -> None:
    holds, reached, positions = state((3, 50), (0, 7)), [], dict[int, Position]()
    while (found := fixed(STOP, holds, positions, Room(5, 2))).slices:
        for one in found.slices:
            partition = int(one.file.label[-1])
            assert one.first == (positions[partition].reached if partition in positions else [3, 0][partition])
            positions[partition] = Position(7, one.last)
            reached.append(one.last - one.first)
    assert sum(reached) == 54


def test_offsets_that_are_gone_are_refused_or_written_down() -> None:
    with pytest.raises(OffsetsGone, match="orders/0 begins with offset 6 now, so offsets 4 to 5 are gone"):
        fixed(STOP, state((6, 9)), {0: Position(7, 4)})
    found = fixed(SKIP, state((6, 9)), {0: Position(7, 4)})
    assert (ranges(found), found.lost) == ([("orders/0", 6, 9)], {"orders/0": (4, 6)})


@pytest.mark.parametrize(
    ("holds", "why"),
    [
        (state((0, 9), id=8), "the topic was made anew"),
        (state((0, 3)), "it ends with offset 3 now"),
        (state(), "the topic has no such partition any more"),
    ],
)
def test_another_topic_under_the_same_name_is_refused(holds: TopicState, why: str) -> None:
    with pytest.raises(TopicRecreated, match=f"up to offset 4: {why}"):
        fixed(STOP, holds, {0: Position(7, 4)})


def test_another_topic_is_read_from_its_beginning_when_that_is_declared() -> None:
    found = fixed(SKIP, state((0, 9), id=8), {0: Position(7, 4)})
    assert (ranges(found), found.lost) == ([("orders/0", 0, 9)], {"orders/0": (4, None)})


def test_what_is_fixed_must_still_be_there() -> None:
    slices = fixed(STOP, state((0, 9)), {}).slices
    require_held(slices, state((0, 20)))
    with pytest.raises(OffsetsGone):
        require_held(slices, state((1, 20)))
    with pytest.raises(TopicRecreated):
        require_held(slices, state((0, 20), id=8))
    with pytest.raises(TopicRecreated):
        require_held(slices, state((0, 5)))
