"""Who does not know Spark's secret gets no answer from the driver, and the secret is in no place others can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.command_line import command_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _stranger(jvm: Any) -> Any:
    """A client of Spark's RPC without authentication, as any program of the machine could be one."""
    conf = jvm.org.apache.spark.SparkConf(False)
    for name in ("spark.rpc.askTimeout", "spark.rpc.lookupTimeout"):
        conf.set(name, "30s")
    security = jvm.org.apache.spark.SecurityManager
    absent = [getattr(security, f"$lessinit$greater$default${number}")() for number in (2, 3)]
    return jvm.org.apache.spark.rpc.RpcEnv.create(
        "stranger", "127.0.0.1", "127.0.0.1", 0, conf, security(conf, *absent), 1, True
    )


def test_a_client_without_the_secret_is_refused_by_the_driver(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    conf = spark.sparkContext.getConf()
    host, port = conf.get("spark.driver.host"), int(conf.get("spark.driver.port") or 0)
    block_manager = jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId()
    stranger = _stranger(jvm)
    try:
        for where, what in ((port, "HeartbeatReceiver"), (block_manager.port(), "anything")):
            with pytest.raises(Exception, match="An error occurred while calling") as refused:
                stranger.setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, where), what)
            assert "Expected SaslMessage" in _causes(refused.value)
    finally:
        stranger.shutdown()
    assert spark.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10


def _causes(error: Any) -> str:
    texts, cause = list[str](), error.java_exception
    while cause is not None:
        texts.append(str(cause.toString()))
        cause = cause.getCause()
    return " ".join(texts)


def test_the_secret_is_on_no_command_line_in_no_setting_and_in_no_file(spark: SparkSession, session_home: Path) -> None:
    jvm: Any = spark.sparkContext._jvm
    secret = jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey()
    assert secret
    spark.range(10).mapInArrow(lambda batches: batches, "id long").collect()
    family = psutil.Process().children(recursive=True)
    assert any("java" in process.name() for process in family)
    assert secret not in " ".join(" ".join(command_line(process)) for process in family)
    assert secret not in str(spark.sparkContext.getConf().getAll())
    for path in (session_home / "spark").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
