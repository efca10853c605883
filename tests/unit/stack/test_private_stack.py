"""Secrets, run folder and Airflow's home are taken only from this user, or from root."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from etl.private_paths import NotPrivate
from etl.settings import Settings, load
from etl.stack import cluster
from etl.stack.airflow import services
from etl.stack.credentials import credentials
from etl.stack.supervision.processes import stack_lock
from tests.support.another_user import give_away


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(var=tmp_path / "var")


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640, 0o602])
def test_secrets_that_others_may_have_read_or_written_are_refused_and_left_as_they_are(
    settings: Settings, mode: int
) -> None:
    made, path = credentials(settings), settings.var / "secrets.json"
    path.chmod(mode)
    with pytest.raises(NotPrivate, match=r"secrets\.json is open to others .*chmod go= .*otherwise remove it"):
        credentials(settings)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o600)
    assert credentials(settings) == made


def test_secrets_of_another_user_are_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials(settings)
    give_away(settings.var / "secrets.json", monkeypatch)
    with pytest.raises(NotPrivate, match=r"secrets\.json belongs to user .*chown"):
        credentials(settings)


def test_a_stack_does_not_start_on_a_run_folder_that_others_may_write_to(settings: Settings) -> None:
    with stack_lock(settings):
        assert stat.S_IMODE((settings.var / "run").stat().st_mode) == 0o700
    (settings.var / "run").chmod(0o775)
    with pytest.raises(NotPrivate, match=r"run may be written to by others"), stack_lock(settings):
        pass


def test_no_client_looks_for_postgres_in_a_run_folder_of_another_user(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.socket_folder(settings)  # nothing is there, and nothing is made
    assert not settings.var.exists()
    (settings.var / "run").mkdir(parents=True)
    cluster.socket_folder(settings)
    give_away(settings.var / "run", monkeypatch)
    with pytest.raises(NotPrivate, match="run belongs to user"):
        cluster.socket_folder(settings)


def test_airflow_has_no_home_that_others_may_write_to(settings: Settings) -> None:
    home = settings.var / "airflow"
    home.mkdir(parents=True)
    home.chmod(0o777)
    with pytest.raises(NotPrivate, match="airflow may be written to by others"):
        services.service(settings)
    assert list(home.iterdir()) == [], "no login is written there"
