from __future__ import annotations

import os
from pathlib import Path

import pytest

from etl import settings as configuration
from etl.errors import SettingsError


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FRONTSTAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRONTSTAGE_HOME", str(tmp_path))


def test_variables_win_over_the_file_and_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "frontstage.toml").write_text('airflow_port = 8081\ntactic = "inlj"\n')
    monkeypatch.setenv("FRONTSTAGE_AIRFLOW_PORT", "8082")
    own = configuration.load()
    assert (own.airflow_port, own.tactic, own.lookup_rows) == (8082, "inlj", 5000)
    assert own.warehouse == tmp_path / "var" / "warehouse"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("FRONTSTAGE_AIRFLW_PORT", "1", "did you mean FRONTSTAGE_AIRFLOW_PORT"),
        ("FRONTSTAGE_NONSENSE", "1", "docs/configuration.md"),
        ("FRONTSTAGE_AIRFLOW_PORT", "eighty", "airflow_port='eighty'"),
        ("FRONTSTAGE_AIRFLOW_PORT", "0", "greater than or equal to 1"),
        ("FRONTSTAGE_TACTIC", "magic", "'auto', 'inlj', 'cinlj'"),
        ("FRONTSTAGE_SCHEDULE", "sometimes", "schedule='sometimes'"),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_allowed(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=message) as refused:
        configuration.load()
    assert variable in str(refused.value)


def test_a_wrong_key_in_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "frontstage.toml").write_text("airflow_prt = 1\n")
    with pytest.raises(SettingsError, match="airflow_prt is not a setting; did you mean airflow_port"):
        configuration.load()


def test_a_broken_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "frontstage.toml").write_text("airflow_port = = 1\n")
    with pytest.raises(SettingsError, match=r"frontstage\.toml cannot be read"):
        configuration.load()


def test_a_secret_shows_neither_in_text_nor_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTSTAGE_POSTGRES_DSN", "postgresql://me:hunter2@db/x")
    own = configuration.load()
    assert "hunter2" not in repr(own) + str(own)
    monkeypatch.setenv("FRONTSTAGE_AIRFLOW_PORT", "x")
    with pytest.raises(SettingsError) as refused:
        configuration.load()
    assert "hunter2" not in str(refused.value)


def test_settings_survive_the_way_through_a_childs_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    own = configuration.load(batch_bytes=4_096, postgres_dsn="postgresql://me:hunter2@db/x")
    for name, value in own.environment().items():
        monkeypatch.setenv(name, value)
    assert configuration.load() == own


def test_a_deep_folder_still_gets_a_socket_the_system_accepts(tmp_path: Path) -> None:
    own = configuration.load(var=tmp_path / ("deep" * 30))
    assert len(os.fsencode(own.runner_socket)) < 107


def test_without_a_checkout_home_is_the_current_folder_and_the_examples_stay_in_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FRONTSTAGE_HOME")
    assert configuration.load().home == configuration.PROJECT
    monkeypatch.setattr(configuration, "IN_CHECKOUT", False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frontstage.toml").write_text("airflow_port = 8081\n")
    own = configuration.load()
    assert (own.home, own.var, own.airflow_port) == (tmp_path, tmp_path / "var", 8081)
    assert own.pipelines == configuration.PROJECT / "warehouse" / "pipelines"
    assert own.own_pipelines == tmp_path / "warehouse" / "pipelines"


def test_a_service_that_runs_already_sees_the_first_pipeline_beside_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTSTAGE_HOME", str(tmp_path))
    for name, value in configuration.load().environment().items():
        monkeypatch.setenv(name, value)
    assert configuration.load().pipelines == configuration.PROJECT / "warehouse" / "pipelines"
    configuration.load().own_pipelines.mkdir(parents=True)
    assert configuration.load().pipelines == tmp_path / "warehouse" / "pipelines"


def test_a_home_relative_to_the_current_folder_is_the_same_for_a_service_that_runs_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FRONTSTAGE_HOME", "own")
    environment = configuration.load().environment()
    assert environment["FRONTSTAGE_HOME"] == str(tmp_path / "own")
    assert environment["FRONTSTAGE_VAR"] == str(tmp_path / "own" / "var")
