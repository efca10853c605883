"""Airflow's processes: their environment, and how they are started.

    api-server      127.0.0.1:<airflow_port>, one worker      scheduler   LocalExecutor, tasks as its children
    dag-processor   reads the DAG files                       triggerer   waits on behalf of deferred tasks

All of Airflow's configuration comes as environment, secrets included; its home holds no configuration worth
editing. The metadata is a database of the stack's Postgres. The numbers below trade a little idle work for
runs that start within a second: the scheduler's loop is what decides when a finished task's successor starts.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from contextlib import closing
from pathlib import Path

import psycopg2

from etl.private_paths import private_folder
from etl.settings import DAG_FILES, PROJECT, Settings
from etl.stack import postgres
from etl.stack.credentials import credentials
from etl.stack.environment import project_environment
from etl.stack.supervision.processes import Service

USER = "admin"


def url(settings: Settings) -> str:
    """The URL of Airflow's UI and REST API."""
    return f"http://127.0.0.1:{settings.airflow_port}"


def environment(settings: Settings) -> dict[str, str]:
    """The environment of a process of this Airflow."""
    return {
        **project_environment(settings),
        **{f"AIRFLOW__{name}": value for name, value in _options(settings).items()},
        "AIRFLOW_HOME": str(_home(settings)),
        "SPT_NOENV": "1",  # process titles must not overwrite the environment: the stack's mark is in it
    }


def _options(settings: Settings) -> dict[str, str]:
    ours = credentials(settings)
    return {
        "CORE__DAGS_FOLDER": str(DAG_FILES),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "5",
        "CORE__KILLED_TASK_CLEANUP_TIME": "5",
        "CORE__FERNET_KEY": ours.fernet_key,
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(_home(settings) / "passwords.json"),
        "CORE__EXECUTION_API_SERVER_URL": f"{url(settings)}/execution/",
        "DATABASE__SQL_ALCHEMY_CONN": postgres.sqlalchemy_url(settings, postgres.AIRFLOW),
        "API__HOST": "127.0.0.1",
        "API__PORT": str(settings.airflow_port),
        "API__BASE_URL": url(settings),
        "API__WORKERS": "1",
        "API__SECRET_KEY": ours.api_secret_key,
        "API_AUTH__JWT_SECRET": ours.jwt_secret,
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "2",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "DAG_PROCESSOR__PRINT_STATS_INTERVAL": "300",
        "WORKERS__EXECUTION_API_TIMEOUT": "30",
        "LOGGING__BASE_LOG_FOLDER": str(settings.run_logs),
        "LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(settings.run_logs / "dag_processor"),
        "LOGGING__COLORED_CONSOLE_LOG": "False",
    }


def service(settings: Settings) -> Service:
    """Airflow as a service: home, login, and whether its database has to be migrated first."""
    home = private_folder(_home(settings))  # Airflow runs the plugins that are in it
    _write_private(home / "passwords.json", json.dumps({USER: credentials(settings).airflow_password}) + "\n")
    # Without this file every process would write its own, with different secrets, at the same time.
    _write_private(home / "airflow.cfg", "# Airflow is told everything through its environment.\n")
    logs = settings.var / "logs"
    argv = [sys.executable, "-m", "etl.stack.airflow.host", str(logs)]
    # Checking for migrations takes as long as migrating, so the result is cached.
    memo = _memo(settings)
    if not memo.exists() or memo.read_text() != _schema(settings):
        argv.append("--migrate")
    return Service("airflow", tuple(argv), environment(settings), logs / "airflow.log", cwd=PROJECT)


def remember_schema(settings: Settings) -> None:
    """Record that Airflow's database is at this version's schema, so that the next start need not check."""
    _memo(settings).write_text(_schema(settings))


def _memo(settings: Settings) -> Path:
    return _home(settings) / "schema"


def _home(settings: Settings) -> Path:
    return settings.var / "airflow"


def _schema(settings: Settings) -> str:
    """This Airflow version and the revision the database is at; empty when there is none yet."""
    where = postgres.dsn(settings, postgres.AIRFLOW)
    with closing(psycopg2.connect(where, connect_timeout=5)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('alembic_version')")
        if cursor.fetchone() == (None,):
            return ""
        cursor.execute("SELECT string_agg(version_num, ',' ORDER BY version_num) FROM alembic_version")
        (revision,) = cursor.fetchone() or ("",)
    return f"{importlib.metadata.version('apache-airflow-core')} {revision}\n"


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)
