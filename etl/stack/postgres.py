"""Postgres for the whole project: the configured server, or the embedded one.

    postgres_dsn set      that server is used; nothing is started, nothing is stopped
    postgres_dsn unset    an embedded Postgres 18 on a Unix socket only its owner can open; also on
                          127.0.0.1, with a password, when `postgres_tcp_port` is set

`dsn()` answers in any process, also in those that did not start the server (Airflow's tasks, the Spark
driver).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import quote, urlencode

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import encrypt_password, parse_dsn

from etl.errors import PostgresUnavailable, SettingsError
from etl.settings import Settings
from etl.stack import cluster
from etl.stack.credentials import credentials
from etl.stack.supervision.processes import Guarded, ServiceFailed, last_line, stack_lock, start, wait_until

FRONTSTAGE = "frontstage"
AIRFLOW = "airflow"
START_S = 60.0


def dsn(settings: Settings, database: str = FRONTSTAGE) -> str:
    """A libpq URL of one of our databases."""
    if database == AIRFLOW and settings.airflow_dsn is not None:
        return _url(settings.airflow_dsn.get_secret_value(), "FRONTSTAGE_AIRFLOW_DSN")
    if settings.postgres_dsn is not None:
        given = settings.postgres_dsn.get_secret_value()
        return _url(given, "FRONTSTAGE_POSTGRES_DSN", {} if database == FRONTSTAGE else {"dbname": database})
    where = {"host": str(cluster.socket_folder(settings)), "port": cluster.port(settings)}
    return f"postgresql://postgres@/{quote(database)}?{urlencode(where)}"


def sqlalchemy_url(settings: Settings, database: str = FRONTSTAGE) -> str:
    """The same with an explicit SQLAlchemy driver: a bare `postgresql://` may mean another one."""
    return dsn(settings, database).replace("postgresql://", "postgresql+psycopg2://", 1)


def tcp_dsn(settings: Settings, database: str = FRONTSTAGE) -> str:
    """The embedded server over TCP, for programs without Unix sockets. Contains a password."""
    if settings.postgres_tcp_port is None:
        raise SettingsError("the embedded Postgres does not listen on TCP; set FRONTSTAGE_POSTGRES_TCP_PORT")
    password = quote(credentials(settings).postgres_password)
    return f"postgresql://postgres:{password}@127.0.0.1:{settings.postgres_tcp_port}/{quote(database)}"


def check(settings: Settings, database: str = FRONTSTAGE) -> str:
    """The server's version, or `PostgresUnavailable`."""
    where = dsn(settings, database)
    try:
        with closing(psycopg2.connect(where, connect_timeout=5)) as connection:
            return str(connection.info.parameter_status("server_version"))
    except psycopg2.OperationalError as error:
        raise PostgresUnavailable(_place(where), _reason(error, where)) from None


@contextmanager
def embedded_postgres(settings: Settings) -> Iterator[str]:
    """The server alone, for the duration of the block; yields the DSN of database `frontstage`."""
    if settings.postgres_dsn is not None:
        check(settings)
        yield dsn(settings)
        return
    with stack_lock(settings) as lock:
        guarded = start_embedded(settings, keep=[lock])
        try:
            yield dsn(settings)
        finally:
            guarded.stop()
            cluster.tidy(settings)


def start_embedded(
    settings: Settings, keep: Sequence[int] = (), databases: Sequence[str] = (FRONTSTAGE, AIRFLOW)
) -> Guarded:
    """Start the server; return when it answers and has our databases. The caller holds the lock."""
    account = cluster.prepare(settings, keep)
    service = cluster.server(settings, account)
    guarded = start(service, settings.var, keep)
    try:
        answers = _answering(settings, guarded)
        if not wait_until(lambda: guarded.poll() is not None or answers(), START_S):
            raise ServiceFailed("Postgres", f"does not answer after {START_S:.0f} s", service.log)
        if guarded.poll() is not None:
            raise ServiceFailed("Postgres", f"ended at once ({last_line(service.log)})", service.log)
        create_databases(settings, databases)
        if settings.postgres_tcp_port is not None:
            _set_password(settings)
    except BaseException:
        guarded.stop()
        raise
    return guarded


def create_databases(settings: Settings, databases: Sequence[str]) -> None:
    """Create missing databases, on the embedded or the configured server."""
    maintenance = dsn(settings, "postgres") if settings.postgres_dsn is None else dsn(settings)
    try:
        with closing(psycopg2.connect(maintenance, connect_timeout=5)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT datname FROM pg_database")
                present = {name for (name,) in cursor.fetchall()}
                for name in databases:
                    if name not in present:
                        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg2.Error as error:
        raise PostgresUnavailable(_place(maintenance), _reason(error, maintenance)) from None


def _answering(settings: Settings, guarded: Guarded) -> Callable[[], bool]:
    """A check whether *our* server is ready, identified by its pid file."""
    pid_file = settings.var / "postgres" / "postmaster.pid"

    def answers() -> bool:
        try:
            lines = pid_file.read_text().split("\n")
        except OSError:
            return False
        return lines[0] == str(guarded.pid) and len(lines) > 7 and lines[7].strip() == "ready"

    return answers


def _set_password(settings: Settings) -> None:
    with (
        closing(psycopg2.connect(dsn(settings, "postgres"))) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        # Hashed here, so that the password itself reaches neither the server's log nor its statistics.
        password = credentials(settings).postgres_password
        hashed = encrypt_password(password, "postgres", connection, "scram-sha-256")
        cursor.execute(sql.SQL("ALTER ROLE postgres PASSWORD {}").format(sql.Literal(hashed)))


def _url(given: str, setting: str, changes: dict[str, str] | None = None) -> str:
    """Convert any libpq DSN to a URL, which SQLAlchemy requires."""
    wrong = SettingsError(
        f"{setting} is not a Postgres DSN; write postgresql://user@host:port/database, special characters "
        "of a password percent-encoded"
    )
    try:
        parts = {**parse_dsn(given), **(changes or {})}
    except psycopg2.ProgrammingError:
        raise wrong from None
    if not all(port.isdecimal() for port in parts.get("port", "1").split(",")):  # a password with an @ ends here
        raise wrong
    user, password = parts.pop("user", ""), parts.pop("password", None)
    host, port = parts.pop("host", ""), parts.pop("port", "")
    database = parts.pop("dbname", "")
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password is not None else "")
    if host.startswith("/") or "," in host or ":" in host:
        parts, host, port = {"host": host, **({"port": port} if port else {}), **parts}, "", ""
    place = (f"{who}@" if who else "") + host + (f":{port}" if port else "")
    return f"postgresql://{place}/{quote(database, safe='')}" + (f"?{urlencode(parts)}" if parts else "")


def _place(url: str) -> str:
    parts = parse_dsn(url)
    return f"{parts.get('host', 'the default socket')}:{parts.get('port', cluster.DEFAULT_PORT)}"


def _reason(error: psycopg2.Error, url: str) -> str:
    """The driver's first line, without the password should it ever quote one."""
    line = next((line.strip() for line in str(error).split("\n") if line.strip()), "no reason given")
    password = parse_dsn(url).get("password")
    return line.replace(password, "***") if password else line
