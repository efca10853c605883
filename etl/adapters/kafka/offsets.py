"""Which offsets the next batch reads: the unread ones of every partition, up to the batch's limits.

    Position   where the last batch ended, in which topic        (ledger)
    TopicState earliest, latest, id                              (broker)
    fix        ─▶ Fixed: slices of the batch, and lost offsets

Pure. An offset is lost when the broker drops it before a batch has read it, or when the topic was recreated; that is an
error, or recorded if the topic is declared to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from etl.adapters.kafka.broker import TopicState
from etl.adapters.kafka.errors import OffsetsGone, TopicRecreated
from etl.adapters.landing import LandedFile, Slice
from etl.contract.model import Topic

Lost = tuple[int, int | None]
"""Offsets that no batch will read: first, and the one after the last; None when that is unknown."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where the last batch ended in a partition."""

    topic_id: int
    reached: int  # the next offset to read


@dataclass(frozen=True, slots=True)
class Room:
    """The most messages in a batch, and in a slice."""

    messages: int
    slice_messages: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Unread offsets of a partition."""

    partition: int
    first: int
    latest: int
    lost: Lost | None = None
    is_new: bool = False  # no batch has read from it

    @property
    def messages(self) -> int:
        return self.latest - self.first


@dataclass(frozen=True, slots=True)
class Fixed:
    """The offsets of a topic that a batch reads."""

    slices: tuple[Slice, ...] = ()
    lost: Mapping[str, Lost] = field(default_factory=dict)  # by partition


def range_name(topic: str, partition: int) -> bytes:
    """The name of a partition's slices."""
    return f"{topic}/{partition}".encode()


def partition_of(name: bytes) -> int:
    """The partition of a slice."""
    return int(name.rpartition(b"/")[2])


def unread(topic: Topic, state: TopicState, positions: Mapping[int, Position]) -> list[Unread]:
    """Unread offsets by partition. Raises `OffsetsGone` and `TopicRecreated` unless the topic is declared to skip."""
    from_the_end = topic.start == "latest" and not positions
    found = []
    for partition, (earliest, latest) in sorted(state.offsets.items()):
        position = positions.get(partition)
        if position is None:  # nothing is lost in a partition that was added later
            found.append(Unread(partition, latest if from_the_end else earliest, latest, is_new=True))
        else:
            found.append(_since(topic, partition, position, state.id, earliest, latest))
    for partition in sorted(positions.keys() - state.offsets.keys()):
        reached = positions[partition].reached
        if topic.on_loss == "stop":
            raise TopicRecreated(_label(topic, partition), reached, "the topic has no such partition any more")
    return found


def _since(topic: Topic, partition: int, position: Position, topic_id: int, earliest: int, latest: int) -> Unread:
    reached, label, skip = position.reached, _label(topic, partition), topic.on_loss == "skip"
    if position.topic_id != topic_id:
        if not skip:
            raise TopicRecreated(label, reached, "the topic was made anew")
        return Unread(partition, earliest, latest, (reached, None))
    if latest < reached:
        if not skip:
            raise TopicRecreated(label, reached, f"it ends with offset {latest} now")
        return Unread(partition, earliest, latest, (reached, None))
    if earliest > reached:
        if not skip:
            raise OffsetsGone(label, reached, earliest)
        return Unread(partition, earliest, latest, (reached, earliest))
    return Unread(partition, reached, latest)


def is_due(topic: Topic, waiting: Iterable[Unread]) -> bool:
    """Whether there is something to read, or a start offset to record."""
    return any(one.messages or (one.is_new and topic.start == "latest") for one in waiting)


def fix(topic: Topic, topic_id: int, waiting: list[Unread], room: Room, now: datetime, ordinal: int) -> Fixed:
    """The slices of the next batch, numbered from `ordinal`: every partition gets its share of the room.

    A new, empty partition gets an empty slice, which records in the ledger the offset from which nothing may be lost.
    """
    if not is_due(topic, waiting):
        return Fixed()
    total = sum(one.messages for one in waiting)
    slices: list[Slice] = []
    lost: dict[str, Lost] = {}
    for one in waiting:
        if not one.messages and not one.is_new:
            continue
        taken = one.messages if total <= room.messages else -(-one.messages * room.messages // total)
        file = LandedFile(range_name(topic.name, one.partition), 0, int(now.timestamp() * 1e9), topic_id)
        end = one.first + min(taken, one.messages)
        for first, last in _cut(one.first, end, room.slice_messages) or [(one.first, end)]:
            slices.append(Slice(ordinal + len(slices), file, first, last))
        if one.lost is not None:
            lost[_label(topic, one.partition)] = one.lost
    return Fixed(tuple(slices), lost)


def require_held(slices: tuple[Slice, ...], state: TopicState) -> None:
    """Raise unless the broker still has the fixed offsets, in the same topic."""
    for one in slices:
        label = one.file.label
        if one.file.inode != state.id:
            raise TopicRecreated(label, one.first, "the topic was made anew")
        earliest, latest = state.offsets.get(partition_of(one.file.name), (0, 0))
        if latest < one.last:
            raise TopicRecreated(label, one.last, f"it ends with offset {latest} now")
        if earliest > one.first:
            raise OffsetsGone(label, one.first, earliest)


def _cut(first: int, last: int, most: int) -> list[tuple[int, int]]:
    return [(one, min(last, one + most)) for one in range(first, last, most)]


def _label(topic: Topic, partition: int) -> str:
    return range_name(topic.name, partition).decode()
