"""All settings, built once and frozen: defaults, then `frontstage.toml`, then `FRONTSTAGE_*` variables.

Nothing else in the project reads the environment. An unknown key and a bad value are both named, with what is
allowed, in one `SettingsError`.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from etl.errors import SettingsError

PREFIX = "FRONTSTAGE_"
PROJECT = Path(__file__).resolve().parents[1]
"""Where `etl/`, `sql/` and `warehouse/` are: the checkout, or the folder that the wheel was installed into."""
IN_CHECKOUT = (PROJECT / "bin" / "setup").is_file()
DAG_FILES = (PROJECT / "etl" / "airflow" / "dag_files").resolve()
"""The DAG files: `dags/` of the checkout, which a wheel keeps inside the package."""
MALLOC_ARENAS = "2"
"""The C library keeps up to eight heaps per core for a process's threads, and gives back little of them (ADR 136)."""
JARS_REMEDY = (
    f"run `make setup`, or name their folder in {PREFIX}JARS"
    if IN_CHECKOUT
    else f"set {PREFIX}JARS to `var/jars` of a clone of the repository in which `make setup` was run"
)
"""What to do where the jars beside Spark's own are missing. A wheel has their sums, not the jars."""

_LONGEST_SOCKET_PATH = 100  # the system allows 107 bytes
Tactic = Literal["auto", "inlj", "cinlj", "hybridjoin", "chybridjoin", "meshjoin", "cmeshjoin"]
Policy = Literal["tinylfu", "paper"]
Store = Literal["pages", "direct"]
ReadRule = Literal["best_first", "position"]
Port = Annotated[int, Field(ge=1, le=65535)]


_SHIPPED = {name: Path("warehouse") / name for name in ("pipelines", "streams", "correlations")}
"""By setting, folders that hold examples: those of the project are taken where `home` has none."""


def _default_home() -> Path:
    """The checkout. Without one the current folder: what is written never goes among installed packages."""
    return PROJECT if IN_CHECKOUT else Path.cwd()


class Settings(BaseSettings):
    """What a user may set. Names carry their unit; every path is made absolute against `home`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    home: Path = Field(
        default_factory=_default_home,
        description="Folder of `frontstage.toml` and, by default, of everything written.",
    )
    var: Path = Field(Path("var"), description="Everything the project writes: data, logs, reports.")
    pipelines: Path = Field(
        _SHIPPED["pipelines"],
        description="Folder of the files that declare pipelines (`*.toml`). Without it, the shipped examples.",
    )
    streams: Path = Field(
        _SHIPPED["streams"],
        description="Folder of the files that declare streams for correlations (`*.toml`).",
    )
    correlations: Path = Field(
        _SHIPPED["correlations"],
        description="Folder of the files that declare correlations (`*.toml`).",
    )
    sites: Path = Field(
        Path("warehouse/sites.toml"), description="File that declares sites, where streams may live; it need not exist."
    )
    stream_store: str | None = Field(
        None,
        description="Root of stream segments and correlation state: a folder or a URL that fsspec knows. Unset: "
        "`correlations/_log` in the warehouse.",
    )
    archive: Path = Field(Path("var/archive"), description="Where landed files go once they are loaded and quiet.")
    warehouse: Path = Field(Path("var/warehouse"), description="Root of the Delta tables.")
    batch_bytes: int = Field(
        256 * 2**20, ge=1, description="How much of what has landed one batch takes; the rest waits for the next."
    )

    query_slot_s: int = Field(
        10,
        ge=1,
        le=86_400,
        description="Event time of one slot, in seconds: windows of ad-hoc queries are whole slots.",
    )
    query_retention_s: int = Field(
        3_600,
        ge=1,
        description="How far streams of ad-hoc queries may lie apart, and their longest window, in seconds.",
    )
    query_lateness_s: int = Field(
        60, ge=0, description="How late a tuple may come and still be joined by ad-hoc queries, in seconds."
    )
    queries_most: int = Field(1_000, ge=1, description="Ad-hoc queries that may exist at a time.")
    queries_most_per_owner: int = Field(100, ge=1, description="Ad-hoc queries that one owner may have at a time.")
    query_rows_most: int = Field(
        5_000_000, ge=1, description="Rows, or groups, of one ad-hoc query in a micro-batch; with more it is suspended."
    )
    query_days: int = Field(30, ge=1, description="Days after which an ad-hoc query expires at the latest.")

    postgres_dsn: SecretStr | None = Field(
        None, description="An existing Postgres (`postgresql://…`). Unset: an embedded server under `var`."
    )
    postgres_tcp_port: Port | None = Field(
        None, description="Also let the embedded server listen on 127.0.0.1 at this port."
    )
    airflow_dsn: SecretStr | None = Field(
        None,
        description="Database of Airflow's own metadata. Unset: database `airflow` on the same server.",
    )
    schedule: str | None = Field(
        None,
        pattern=r"^(none|on_arrival|@\w+|\S+( \S+){4})$",
        description="Overrides the `schedule` of every pipeline: `on_arrival`, `none`, `@continuous` or cron.",
    )
    airflow_port: Port = Field(8080, description="Port of Airflow's UI and REST API on 127.0.0.1.")

    kafka_servers: str | None = Field(
        None, description="Kafka brokers, `host:port` and more of them after commas, of topics that name none."
    )
    kafka_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How brokers are spoken to."
    )
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="How to sign in at brokers, with a protocol that begins with SASL."
    )
    kafka_username: str | None = Field(None, description="Who signs in at brokers.")
    kafka_password: SecretStr | None = Field(None, description="The password of who signs in at brokers.")
    kafka_password_file: Path | None = Field(
        None, description="A file that holds that password, in place of the setting; every batch reads it."
    )
    kafka_authority: Path | None = Field(
        None, description="File of PEM certificates that brokers are trusted by. Unset: those of the system."
    )

    spark_master: str = Field("local[*]", description="Spark master URL.")
    spark_driver_memory: str = Field(
        "2g", pattern=r"^[1-9][0-9]*[mg]$", description="Memory of the Spark driver's JVM."
    )
    spark_shuffle_partitions: int = Field(2, ge=1, le=10_000, description="Partitions after a shuffle.")
    spark_jit: Literal["quick", "full"] = Field(
        "quick",
        description="How the JVM compiles: `quick` suits batches of some 50,000 events, `full` those of a million.",
    )
    jars: Path = Field(Path("var/jars"), description="Folder of the pinned Delta jars.")

    tactic: Tactic = Field("auto", description="How events are joined with master data; `auto` chooses per batch.")
    policy: Policy = Field("tinylfu", description="Which master rows the front stage keeps.")
    budget_bytes: int = Field(
        64 * 2**20,
        ge=2**20,
        description="Memory for the joins: three quarters for the front stage workers share, the rest for each worker.",
    )
    lookup_rows: int = Field(5_000, ge=1, le=100_000, description="Keys asked of Postgres in one lookup.")
    task_lookups: int | None = Field(
        None, ge=1, description="Master rows one task may look up per batch; events beyond are deferred, not lost."
    )
    task_pages: int | None = Field(
        None, ge=1, description="Master pages one task may read per batch; events beyond are deferred, not lost."
    )
    read_rule: ReadRule = Field(
        "best_first",
        description="What a batch reads that may not read all: keys that most events wait for (`best_first`), or those "
        "at the paper's place in the queue (`position`).",
    )
    master_store: Store = Field(
        "pages", description="Where joins read master data: published `pages`, or `direct` from where it is kept."
    )
    master_pages: Path = Field(Path("var/master"), description="Root of the published master pages.")
    reports_kept: int = Field(200, ge=1, description="Run reports and Data Docs pages kept; older ones are removed.")
    digest_notifier: str | None = Field(
        None, description="Path of an Airflow notifier that is told of every daily digest."
    )
    digest_notifier_arguments: str = Field("{}", description="Arguments of that notifier, as a JSON object.")
    alert_notifier: str | None = Field(
        None, description="Path of an Airflow notifier that is told when a pipeline with `freshness` is not fresh."
    )
    alert_notifier_arguments: str = Field("{}", description="Arguments of that notifier, as a JSON object.")
    telemetry: Literal["off", "otlp", "console"] = Field(
        "off", description="OpenTelemetry metrics and traces; `otlp` sends them as the `OTEL_*` variables say."
    )
    openlineage_url: str | None = Field(None, description="Where OpenLineage events of batches are posted.")
    disk_free_bytes: int = Field(2 * 2**30, ge=0, description="Free disk space below which nothing is started.")

    @field_validator("home", mode="after")
    @classmethod
    def _from_here(cls, home: Path) -> Path:
        return home.absolute()  # our services do not run in the folder that the command was given in

    @field_validator(
        "var",
        "archive",
        "warehouse",
        "jars",
        "master_pages",
        "pipelines",
        "streams",
        "correlations",
        "sites",
        "kafka_password_file",
        "kafka_authority",
        mode="after",
    )
    @classmethod
    def _absolute(cls, path: Path | None, info: Any) -> Path | None:
        if path is None:
            return None
        home: Path = info.data.get("home", PROJECT)  # a bad `home` is refused anyway
        if info.field_name in _SHIPPED and not (home / path).is_dir():
            home = PROJECT
        return home / path  # an absolute path stays what it is

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        home = Path(os.environ.get(f"{PREFIX}HOME") or _default_home())
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, home / "frontstage.toml")

    @cached_property
    def runner_socket(self) -> Path:
        """Where the resident Spark driver listens: a Unix socket in a folder only its owner can open."""
        socket = self.var / "run" / "runner.sock"
        if len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH:
            return socket
        name = hashlib.sha256(os.fsencode(self.var)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"frontstage-{os.getuid()}-{name}" / "runner.sock"

    @cached_property
    def own_pipelines(self) -> Path:
        """Where a new pipeline's file goes: beside the others, but never among the examples of an installation."""
        shipped = PROJECT / _SHIPPED["pipelines"]
        return self.home / _SHIPPED["pipelines"] if self.pipelines == shipped else self.pipelines

    @cached_property
    def reports(self) -> Path:
        """Folder of the run reports."""
        return self.var / "reports"

    @cached_property
    def run_logs(self) -> Path:
        """Folder of the logs of Airflow's tasks."""
        return self.var / "logs" / "airflow"

    @cached_property
    def digests(self) -> Path:
        """Folder of the daily digests, among the reports."""
        return self.reports / "digest"

    @cached_property
    def data_docs(self) -> Path:
        """Folder of Great Expectations' Data Docs."""
        return self.var / "data_docs"

    def environment(self) -> dict[str, str]:
        """The settings as `FRONTSTAGE_*` variables, to hand to a child process of ours.

        Folders of the shipped examples are left out: whoever makes a folder of their own beside the settings later is
        seen by processes that run already.
        """
        plain: dict[str, str] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is None or (name in _SHIPPED and value == PROJECT / _SHIPPED[name]):
                continue
            if isinstance(value, SecretStr):
                value = value.get_secret_value()
            elif isinstance(value, timedelta):
                value = f"PT{value.total_seconds():f}S"  # a bare number of seconds with a fraction is refused
            plain[PREFIX + name.upper()] = str(value)
        return plain


def load(**overrides: Any) -> Settings:
    """The settings in force. Raises `SettingsError` that names every offending key."""
    _refuse_unknown_variables(os.environ)
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from None
    except (OSError, ValueError) as error:  # an unreadable or malformed frontstage.toml
        raise SettingsError(f"frontstage.toml cannot be read: {error}") from None


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = set(Settings.model_fields)
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in known:
            raise SettingsError(f"{variable} is not a setting; {_suggestion(name, known, PREFIX)}")


def _sentence(error: ValidationError) -> str:
    parts = []
    for problem in error.errors():
        name = str(problem["loc"][0])
        if problem["type"] == "extra_forbidden":
            parts.append(f"{name} is not a setting; {_suggestion(name, set(Settings.model_fields), '')}")
            continue
        secret = Settings.model_fields[name].annotation == SecretStr | None
        given = "" if secret else f"={problem['input']!r}"
        parts.append(f"{name}{given} is not allowed: {problem['msg']}; set {PREFIX}{name.upper()} or frontstage.toml")
    return " | ".join(parts)


def _suggestion(name: str, known: set[str], prefix: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {(prefix + near[0].upper()) if prefix else near[0]}?"
    return "the settings are listed in docs/configuration.md"
