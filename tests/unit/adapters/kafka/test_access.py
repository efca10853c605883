"""Both clients are told the same, and the password shows nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from etl.adapters.kafka.access import Access
from etl.contract.model import Topic
from etl.errors import SettingsError
from etl.pipeline.input.topic_input import Fetch, access_of
from etl.settings import load

SECRET = 'pass"word\\'


def test_the_password_is_in_options_only() -> None:
    access = Access("b:9092", "SASL_SSL", "PLAIN", "me", SECRET, Path("/ca.pem"))
    assert access.for_librdkafka()["sasl.password"] == SECRET
    login = access.for_spark()["kafka.sasl.jaas.config"]
    (quoted,) = re.findall(r'password="(.*)";$', login)
    assert quoted.replace('\\"', '"').replace("\\\\", "\\") == SECRET
    assert SECRET not in repr(access)
    assert SECRET not in repr(Fetch("orders", access, ()))


def test_nobody_signs_in_where_nobody_is_asked() -> None:
    assert Access("b:9092", password=SECRET).for_spark() == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_the_password_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    own = load(kafka_servers="b:9092", kafka_password_file=file)
    with pytest.raises(SettingsError, match="cannot be read"):
        access_of(own, Topic("orders"))
    file.write_text(f"{SECRET}\n")
    assert access_of(own, Topic("orders", servers="c:9092")) == Access("c:9092", password=SECRET)
