"""A topic as the input of batches: which offsets come next, and their copies, which the tasks read.

    1 waiting   unread offsets: the ledger's positions against the broker's
    2 fix       slices of offsets, as many as the batch has room for          in the ledger, before anything is read
    3 fetch     Spark's source copies those offsets into the archive; existing copies stay

A second try finds the slices in the ledger and fetches the offsets that have no copy yet. Offsets that the broker no
longer has are an error before and after copying, so a gap is never mistaken for a short range.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from etl.adapters.kafka import offsets
from etl.adapters.kafka.access import Access
from etl.adapters.kafka.broker import Broker
from etl.adapters.kafka.copies import CopyWriter, copies_in, copy_path, missing
from etl.adapters.kafka.errors import NoServers
from etl.adapters.kafka.offsets import Fixed, Room, Unread, partition_of
from etl.adapters.landing import MESSAGE_BYTES, Limits, Slice, is_range
from etl.adapters.ledger import Ledger
from etl.contract.model import Topic
from etl.errors import SettingsError
from etl.settings import Settings

_USUAL_BYTES = 1_024  # of a message, until there are copies to measure


@dataclass(frozen=True, slots=True)
class Part:
    """Offsets of one partition, and the path of their copy."""

    partition: int
    first: int
    last: int
    path: Path


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request to copy offsets of a topic."""

    topic: str
    access: Access = field(repr=False)
    parts: tuple[Part, ...]


class Fetcher(Protocol):
    """Copies offsets of a topic: on Spark."""

    def fetch(self, wanted: Fetch) -> None:
        """Write a copy of every part that has messages; an empty part needs no copy."""
        ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """Unread offsets of a topic."""

    topic_id: int
    partitions: tuple[Unread, ...]

    @property
    def bytes(self) -> int:
        """Their estimated size, by which batches are sized."""
        return MESSAGE_BYTES * sum(one.messages for one in self.partitions)


@dataclass(frozen=True, slots=True)
class TopicInput:
    """One pipeline's topic."""

    topic: Topic
    broker: Broker
    archive: Path

    def waiting(self, ledger: Ledger) -> Waiting:
        """Offsets that no batch has read. Raises faults of the topic."""
        state = self.broker.state(self.topic.name)
        unread = offsets.unread(self.topic, state, ledger.positions(self.topic.name))
        return Waiting(state.id, tuple(unread))

    def is_due(self, waiting: Waiting) -> bool:
        """Whether there is input for a batch."""
        return offsets.is_due(self.topic, waiting.partitions)

    def fix(self, waiting: Waiting, limits: Limits, room_bytes: int, now: datetime, slices: Iterable[Slice]) -> Fixed:
        """Slices for the next batch, in addition to these. `limits` are real bytes, `room_bytes` estimated ones."""
        taken = tuple(slices)
        each = self._message_bytes()
        most = min(limits.batch_bytes // each, (room_bytes - sum(one.bytes for one in taken)) // MESSAGE_BYTES)
        room = Room(max(1, most), max(1, limits.slice_bytes // each))
        return offsets.fix(self.topic, waiting.topic_id, list(waiting.partitions), room, now, len(taken))

    def _message_bytes(self) -> int:
        """Mean message size, from the newest day of copies."""
        days = sorted(self.archive.glob("????-??-??"), reverse=True)[:1]
        lately = [one for day in days for one in copies_in(day) if one.topic == self.topic.name]
        messages = sum(one.last - one.first for one in lately)
        return max(1, sum(one.path.stat().st_size for one in lately) // messages) if messages else _USUAL_BYTES

    def fetch(self, fetcher: Fetcher, slices: tuple[Slice, ...]) -> bool:
        """Copy offsets that have no copy yet. False: there were none."""
        wanted = missing(self.archive, slices)
        if not wanted:
            return False
        offsets.require_held(wanted, self.broker.state(self.topic.name))
        parts = tuple(
            Part(partition_of(one.file.name), one.first, one.last, copy_path(self.archive, one)) for one in wanted
        )
        try:
            asked = tuple(one for one in parts if one.first < one.last)
            fetcher.fetch(Fetch(self.topic.name, self.broker.access, asked))
        finally:  # lost offsets are reported as the cause, instead of Spark's error
            offsets.require_held(wanted, self.broker.state(self.topic.name))
        for one in missing(self.archive, wanted):  # no messages: compacted, or markers of transactions
            CopyWriter(copy_path(self.archive, one)).close()
        return True


def topic_input(settings: Settings, topic: Topic | None, archive: Path) -> TopicInput | None:
    """The topic that a pipeline reads, if it reads one."""
    return None if topic is None else TopicInput(topic, Broker(access_of(settings, topic)), archive)


def access_of(settings: Settings, topic: Topic) -> Access:
    """How to reach the brokers of a topic."""
    servers = topic.servers or settings.kafka_servers
    if servers is None:
        raise NoServers(topic.name)
    return Access(
        servers,
        settings.kafka_protocol,
        settings.kafka_mechanism,
        settings.kafka_username,
        _password(settings),
        settings.kafka_authority,
    )


def _password(settings: Settings) -> str | None:
    if settings.kafka_password is not None:
        return settings.kafka_password.get_secret_value()
    file = settings.kafka_password_file
    if file is None:
        return None
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"kafka_password_file {file} cannot be read: {error.strerror}") from None


def ranges(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Those slices that are of a topic."""
    return tuple(one for one in slices if is_range(one.file.name))
