"""The state of a topic at the broker: its id, and the earliest and latest offset of every partition.

Latest is the last stable offset: messages of open transactions are excluded. The client keeps a connection and one
thread; importing it costs some ten milliseconds, so a triggerer can poll twice a second.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from etl.adapters.kafka.access import Access
from etl.adapters.kafka.errors import KafkaUnavailable, TopicMissing

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic's current state. `id` differs when a topic is recreated under the same name."""

    id: int
    offsets: Mapping[int, tuple[int, int]]  # by partition: earliest, latest (exclusive)


class Broker:
    """A client for offsets. Connects lazily; for one thread at a time."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client: AdminClient | None = None
        self._lock = threading.Lock()

    def state(self, topic: str) -> TopicState:
        """The topic's current id and offsets."""
        from confluent_kafka import KafkaException, TopicCollection

        with self._lock:
            try:
                client = self._connected()
                (described,) = client.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_S).values()
                found = described.result(_ANSWER_S + 1)
                partitions = [one.id for one in found.partitions]
                earliest, latest = (self._offsets(client, topic, partitions, end) for end in (False, True))
            except KafkaException as error:
                raise self._known(topic, error.args[0]) from None
            except NoAnswer:
                raise KafkaUnavailable(self.access.servers, "no answer in time") from None
        offsets = {one: (earliest[one], latest[one]) for one in partitions}
        return TopicState(_number(found.topic_id), offsets)

    def _connected(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._client is None:
            # Its own log would go to standard error, past ours.
            quiet = {"log_level": 0, "socket.timeout.ms": int(_ANSWER_S * 1000)}
            self._client = AdminClient({**self.access.for_librdkafka(), **quiet})
        return self._client

    def _offsets(self, client: AdminClient, topic: str, partitions: list[int], end: bool) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.latest() if end else OffsetSpec.earliest()
        asked = {TopicPartition(topic, one): spec for one in partitions}
        level = IsolationLevel.READ_COMMITTED
        answers = client.list_offsets(asked, isolation_level=level, request_timeout=_ANSWER_S)
        return {one.partition: int(answer.result(_ANSWER_S + 1).offset) for one, answer in answers.items()}

    def _known(self, topic: str, error: Any) -> KafkaUnavailable | TopicMissing:
        if error.name() == "UNKNOWN_TOPIC_OR_PART":
            return TopicMissing(topic, self.access.servers)
        return KafkaUnavailable(self.access.servers, str(error.str() or error.name()))


def _number(topic_id: Any) -> int:
    """The random half of a topic's id, stored in the ledger as the input's identity."""
    return int(topic_id.get_least_significant_bits()) & (2**64 - 1)
