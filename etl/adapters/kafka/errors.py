"""Errors about topics."""

from __future__ import annotations

from etl.errors import TerminalError, TransientError

_REMEDY = 'declare on_loss = "skip" in [stream.source] to go on with what is there'


class KafkaUnavailable(TransientError):
    """The broker does not answer, or rejects the credentials."""

    exit_code = 69

    def __init__(self, servers: str, reason: str) -> None:
        super().__init__(servers, reason)
        self.servers, self.reason = servers, reason

    def __str__(self) -> str:
        return (
            f"Kafka at {self.servers} does not answer ({self.reason}); start it, or correct the servers and the "
            "FRONTSTAGE_KAFKA_* settings"
        )


class NoServers(TerminalError):
    """A topic is declared, but no servers are set."""

    exit_code = 78

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def __str__(self) -> str:
        return (
            f"nothing says which brokers hold topic {self.topic!r}; set FRONTSTAGE_KAFKA_SERVERS, or give servers in "
            "[stream.source]"
        )


class TopicMissing(TransientError):
    """The broker has no such topic, yet or any more."""

    def __init__(self, topic: str, servers: str) -> None:
        super().__init__(topic, servers)
        self.topic, self.servers = topic, servers

    def __str__(self) -> str:
        return f"Kafka at {self.servers} has no topic {self.topic!r}; create it, or correct the pipeline's file"


class OffsetsGone(TerminalError):
    """The broker dropped messages before a batch had read them."""

    def __init__(self, partition: str, first: int, earliest: int) -> None:
        super().__init__(partition, first, earliest)
        self.partition, self.first, self.earliest = partition, first, earliest

    def __str__(self) -> str:
        return (
            f"{self.partition} begins with offset {self.earliest} now, so offsets {self.first} to {self.earliest - 1} "
            f"are gone and no batch has read them; raise the topic's retention, and {_REMEDY}"
        )


class TopicRecreated(TerminalError):
    """The topic was recreated under the same name, or its offsets went back."""

    def __init__(self, partition: str, reached: int, why: str) -> None:
        super().__init__(partition, reached, why)
        self.partition, self.reached, self.why = partition, reached, why

    def __str__(self) -> str:
        return (
            f"{self.partition} is not what batches have read up to offset {self.reached}: {self.why}; "
            f"declare a pipeline of another name for it, or {_REMEDY}"
        )


class CopyMissing(TransientError):
    """The copy of offsets that a batch has read is not in the archive."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}, the copy of what a batch reads, is not there or is damaged"
