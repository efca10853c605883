"""A DSN that travels with tasks shows itself to nobody on the way."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import pytest
from cryptography.fernet import Fernet
from pyspark import cloudpickle

from etl.adapters.postgres import SecretDsn, secret
from etl.errors import TerminalError

DSN = "postgresql://frontstage:s3cr3t@db/frontstage"


@dataclass(frozen=True, slots=True)
class Task:
    """What is sent to a worker."""

    dsn: str


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of this test's own."""
    monkeypatch.setenv(secret.KEY, Fernet.generate_key().decode())


@pytest.mark.parametrize("pickled", [pickle.dumps, cloudpickle.dumps])
def test_it_is_pickled_under_seal_and_opened_where_the_key_is(pickled: object) -> None:
    sent = pickled(Task(SecretDsn(DSN)))  # type: ignore[operator]
    assert b"s3cr3t" not in sent
    assert pickle.loads(sent).dsn == DSN
    assert pickle.loads(pickle.dumps(pickle.loads(sent))).dsn == DSN


def test_without_the_key_it_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(SecretDsn(DSN))
    for other in ("", "no key", Fernet.generate_key().decode()):
        monkeypatch.setenv(secret.KEY, other)
        with pytest.raises(TerminalError, match="start the driver again"):
            pickle.loads(sent)
    monkeypatch.delenv(secret.KEY)
    with pytest.raises(TerminalError, match="start the driver again"):
        pickle.loads(sent)


def test_where_nobody_has_drawn_a_key_it_travels_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(secret.KEY)
    assert pickle.loads(pickle.dumps(SecretDsn(DSN))) == DSN


def test_it_does_not_show_itself() -> None:
    assert "s3cr3t" not in repr(Task(SecretDsn(DSN)))
