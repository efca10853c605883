"""The command's manners: help everywhere, one sentence for a mistake, exit codes that mean something."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from etl.stack.supervision.processes import marked
from tests.support.command import frontstage, one_sentence

pytestmark = pytest.mark.slow


def test_the_installed_program_has_help(tmp_path: Path) -> None:
    done = frontstage("--help", home=tmp_path)
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_a_wrong_setting_is_one_sentence_and_exit_78(tmp_path: Path) -> None:
    done = frontstage("status", home=tmp_path, FRONTSTAGE_AIRFLOW_PORT="70000")
    assert done.returncode == 78
    assert "airflow_port='70000'" in one_sentence(done)


def test_a_taken_port_is_one_sentence_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = frontstage("up", home=tmp_path, FRONTSTAGE_AIRFLOW_PORT=str(port))
    assert done.returncode == 69
    assert f"port {port}" in one_sentence(done)
    assert marked(tmp_path / "var") == []


def test_an_unreachable_postgres_is_one_sentence_without_the_password(tmp_path: Path) -> None:
    done = frontstage("run", "orders", home=tmp_path, FRONTSTAGE_POSTGRES_DSN="postgresql://me:hunter2@127.0.0.1:1/x")
    assert done.returncode == 69
    assert "127.0.0.1:1" in one_sentence(done)
    assert "hunter2" not in done.stdout + done.stderr


def test_status_without_a_stack_says_how_to_start_one(tmp_path: Path) -> None:
    done = frontstage("status", home=tmp_path)
    assert done.returncode == 69
    assert "frontstage up" in one_sentence(done)


def test_a_disk_that_is_too_full_stops_the_start(tmp_path: Path) -> None:
    done = frontstage("demo", home=tmp_path, FRONTSTAGE_DISK_FREE_BYTES=str(2**60))
    assert done.returncode == 69
    assert "free" in one_sentence(done)


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    done = frontstage("demo", home=tmp_path, PATH=str(Path(sys.executable).parent), JAVA_HOME=str(tmp_path))
    assert done.returncode == 69
    assert "Java" in one_sentence(done)


def test_down_without_a_stack_is_a_success_that_says_so(tmp_path: Path) -> None:
    done = frontstage("down", home=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "nothing was running")


def test_the_same_seed_and_start_give_the_same_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        words = ["generate", "orders", "--count", "500", "--start", "2026-01-01T00:00:00", "--landing"]
        assert frontstage(*words, str(tmp_path / folder), home=tmp_path).returncode == 0
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / f).iterdir()} for f in ("a", "b"))
    assert first == second
    assert sum(data.count(b"\n") for data in first.values()) == 500


def test_a_wrong_share_is_one_sentence_and_exit_64(tmp_path: Path) -> None:
    done = frontstage("generate", "orders", "--duplicates", "1.5", home=tmp_path)
    assert done.returncode == 64
    assert "share_duplicates=1.5" in one_sentence(done)
