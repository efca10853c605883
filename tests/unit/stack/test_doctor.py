"""The doctor names what is wrong, one line each, and goes on after the first."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest
from pydantic import SecretStr

from etl.settings import Settings, load
from etl.stack import preflight
from etl.stack.doctor import Check, checks, examine


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A machine where all is well, with one pinned jar."""
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "delta.jar").write_bytes(b"classes")
    sums = tmp_path / "jars.sha256"
    sums.write_text(f"{hashlib.sha256(b'classes').hexdigest()}  delta.jar\n")
    monkeypatch.setattr(preflight, "JAR_SUMS", sums)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return load(var=tmp_path / "var", jars=jars, airflow_port=port, disk_free_bytes=0)


def found(settings: Settings) -> dict[str, Check]:
    return {check.name: check for check in checks(settings)}


def wrong(settings: Settings) -> dict[str, str]:
    return {check.name: check.sentence for check in checks(settings) if not check.ok}


def test_on_a_fit_machine_every_line_is_green(settings: Settings) -> None:
    assert wrong(settings) == {}
    assert list(found(settings)) == [
        "settings", "Python", "Java", "jars", "disk", "var", "ports", "Postgres",
    ]  # fmt: skip
    assert "PostgreSQL) 18" in found(settings)["Postgres"].sentence


def test_every_line_is_one_line(settings: Settings) -> None:
    assert all("\n" not in check.sentence and check.sentence for check in checks(settings))


def test_a_jar_that_is_not_the_pinned_one_is_named(settings: Settings) -> None:
    (settings.jars / "delta.jar").write_bytes(b"other classes")
    assert list(wrong(settings)) == ["jars"]
    assert "delta.jar is not the file that was pinned" in wrong(settings)["jars"]


def test_a_jar_that_is_missing_is_named(settings: Settings) -> None:
    (settings.jars / "delta.jar").unlink()
    assert "delta.jar is missing; run `make setup`" in wrong(settings)["jars"]


def test_all_that_is_wrong_is_said_at_once(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "file").touch()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", settings.airflow_port))
        listener.listen()
        bad = settings.model_copy(
            update={
                "disk_free_bytes": 2**60,
                "var": tmp_path / "file" / "var",
                "postgres_dsn": SecretStr("postgresql://me:pass-word@127.0.0.1:1/shop"),
            }
        )
        sentences = wrong(bad)
    assert set(sentences) == {"Java", "disk", "var", "ports", "Postgres"}
    assert f"port {settings.airflow_port} " in sentences["ports"]
    assert not any("pass-word" in sentence for sentence in sentences.values())


@pytest.mark.parametrize(
    ("banner", "verdict"),
    [
        ('openjdk version "21.0.2" 2024-01-16', "Java 21"),
        ('openjdk version "17" 2021-09-14', "Java 17"),
        ('java version "1.8.0_392"', "Java 8 is too old"),
        ("no version here", "Java 0 is too old"),
    ],
)
def test_java_is_judged_by_what_it_says_of_itself(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str, verdict: str
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check = found(settings)["Java"]
    assert check.sentence.startswith(verdict)
    assert check.ok is ("too old" not in verdict)


def test_wrong_settings_are_the_only_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTSTAGE_AIRFLOW_PORT", "0")
    (check,) = examine()
    assert not check.ok
    assert "airflow_port" in check.sentence
