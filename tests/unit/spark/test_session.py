"""Spark's configuration, as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from etl.settings import load
from etl.spark.session import configuration


@pytest.mark.parametrize(
    ("master", "asked"),
    [
        ("local", "true"),
        ("local[*]", "true"),
        ("local[2,4]", "true"),
        ("local-cluster[2,1,1024]", None),
        ("spark://master:7077", None),
        ("k8s://https://master", None),
        ("yarn", None),
    ],
)
def test_a_spark_in_one_process_authenticates_and_a_cluster_does_as_it_is_set_up(
    tmp_path: Path, master: str, asked: str | None
) -> None:
    (tmp_path / "delta.jar").touch()
    told = configuration(load(var=tmp_path / "var", jars=tmp_path, spark_master=master))
    assert told.get("spark.authenticate") == asked
    assert "spark.authenticate.secret" not in told, "PySpark would put it on a command line"
