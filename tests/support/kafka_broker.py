"""A real Kafka broker for tests: one node in KRaft mode, its jars resolved once, its data gone with the tests."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from bench.peers.jars import resolved
from etl.settings import PROJECT

_WANTED = PROJECT / "requirements" / "broker-jars.in"
_SUMS = PROJECT / "requirements" / "broker-jars.sha256"
_HEAP = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@dataclass(frozen=True)
class KafkaBroker:
    """A broker that runs."""

    servers: str

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        new = NewTopic(topic, partitions, 1, config={name.replace("_", "."): value for name, value in config.items()})
        self.admin.create_topics([new])[topic].result(30)
        self._until_known(topic)

    @retry(retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(20), wait=wait_fixed(0.1), reraise=True)
    def _until_known(self, topic: str) -> None:
        found = self.admin.list_topics(topic, timeout=5).topics[topic]
        if found.error is not None or not found.partitions:
            raise KafkaException(found.error)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """As retention does: messages before an offset are gone."""
        (answer,) = self.admin.delete_records([TopicPartition(topic, partition, before)]).values()
        answer.result(30)

    def send(self, topic: str, *events: dict[str, Any] | bytes | None, partition: int = 0) -> None:
        """Messages in this order; None has no value."""
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        for event in events:
            producer.produce(topic, json.dumps(event) if isinstance(event, dict) else event, partition=partition)
        assert producer.flush(30) == 0, "the broker has not taken all messages"


@contextmanager
def kafka_broker(options: Sequence[str] = ()) -> Iterator[KafkaBroker]:
    """A broker for as long as the block lasts. `options`: further lines of its properties."""
    folder = Path(tempfile.mkdtemp(prefix="frontstage-kafka-"))
    broker_port, controller_port = _free_ports()
    properties = _configure(folder, broker_port, controller_port, options)
    command = ["java", *_HEAP, "-cp", f"{_jars()}/*:{_scala()}", "kafka.Kafka", str(properties)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        broker = KafkaBroker(f"127.0.0.1:{broker_port}")
        _until_answers(broker, process, folder / "log")
        yield broker
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@retry(retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(240), wait=wait_fixed(0.2), reraise=True)
def _until_answers(broker: KafkaBroker, process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"the broker has ended: {log.read_text()[-2000:]}")
    if not AdminClient({"bootstrap.servers": broker.servers, "log_level": 0}).list_topics(timeout=2).brokers:
        raise KafkaException("no broker yet")


def _configure(folder: Path, broker_port: int, controller_port: int, options: Sequence[str]) -> Path:
    data = folder / "data"
    data.mkdir()
    (data / "meta.properties").write_text(
        "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\ndirectory.id=BBBBBBBBBBBBBBBBBBBBBB\n"
    )
    properties = folder / "server.properties"
    lines = (
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}",
        f"listeners=PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names=CONTROLLER",
        "inter.broker.listener.name=PLAINTEXT",
        f"log.dirs={data}",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "transaction.state.log.num.partitions=1",
        "auto.create.topics.enable=false",
        "log.initial.task.delay.ms=1000",
        *options,
    )
    properties.write_text("\n".join(lines) + "\n")
    return properties


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])


def _jars() -> Path:
    """The folder of the broker's jars, downloaded when they are not there."""
    folder = PROJECT / "var" / "kafka-broker"
    if not _complete(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            found = resolved(_WANTED, Path(scratch))
            assert _complete(found), "the broker's jars could not be downloaded, or have not the sums that are pinned"
            for jar in found.glob("*.jar"):
                jar.replace(folder / jar.name)
    return folder


def _scala() -> Path:
    """Scala's library, which Spark's resolver leaves out: Spark has its own."""
    package = importlib.util.find_spec("pyspark")
    (jar,) = (Path((package.origin if package is not None else None) or "").parent / "jars").glob("scala-library-*.jar")
    return jar


def _complete(folder: Path) -> bool:
    sums = (line.split() for line in _SUMS.read_text().splitlines())
    return all(
        (folder / name).is_file() and hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        for digest, name in sums
    )
