"""Files and folders that no other user of the machine may change: the one check of their owner and mode.

    folder    of this user or of root; nobody else may write to it: `var/run`, Airflow's home, a socket's folder
    file      the same, and nobody else may read it: `var/secrets.json`
    socket    as a file

Nothing is corrected here: what others could read they may have read, and what they could write they may have written
(ADR 118). A link has to pass, too, with what it leads to. The folders above are not looked at.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from etl.errors import TerminalError


class NotPrivate(TerminalError):
    """Another user may have made, read or changed what only this user should."""

    exit_code = 77  # EX_NOPERM

    def __init__(self, path: str, what: str, remedy: str) -> None:
        super().__init__(path, what, remedy)
        self.path, self.what, self.remedy = path, what, remedy

    def __str__(self) -> str:
        return (
            f"{self.path} {self.what}, so it is not trusted; run {self.remedy} if nobody else has read or changed it, "
            "otherwise remove it"
        )


def require_private(path: Path) -> None:
    """Refuse a path that another user has made, or may change; `FileNotFoundError` when there is none."""
    user = os.geteuid()
    for facts in (path.lstat(), path.stat()):
        wrong = exposure(facts, user)
        if wrong is not None:
            what, command = wrong
            raise NotPrivate(str(path), what, f"`{command} {shlex.quote(str(path))}`")


def private_folder(path: Path) -> Path:
    """The folder, made for this user only when it is missing, and refused when it is not private."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(path)
    return path


def exposure(facts: os.stat_result, user: int) -> tuple[str, str] | None:
    """What lets others at a path, and the command against it; None when only this user and root can be."""
    if facts.st_uid not in (user, 0):
        return f"belongs to user {facts.st_uid}", f"chown {user}"
    mode = stat.S_IMODE(facts.st_mode)
    if stat.S_ISLNK(facts.st_mode):  # its mode says nothing
        return None
    if stat.S_ISDIR(facts.st_mode):
        return (f"may be written to by others (mode {mode:04o})", "chmod go-w") if mode & 0o022 else None
    return (f"is open to others (mode {mode:04o})", "chmod go=") if mode & 0o077 else None
