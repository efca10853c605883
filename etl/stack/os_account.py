"""The account Postgres runs under when we are root, because Postgres refuses to run as root.

Like the package that brings the binaries, we use a system account `pgserver` and create it when it is
missing. The account must reach the binaries and the data below folders that may be closed to others (a
checkout under root's home). Instead of opening those folders to everybody, each gets an access-control entry:
`pgserver` may pass through, may not list. Where the file system has no such entries, the folder is made
passable (`o+x`), which is the next smallest thing.
"""

from __future__ import annotations

import os
import pwd
import stat
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from etl.errors import MissingPart

NAME = "pgserver"
ACL = "system.posix_acl_access"
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER, _NOBODY = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Account:
    """The operating-system account that a service runs under."""

    uid: int
    gid: int

    def own(self, folder: Path) -> None:
        """Change the owner of a folder, not recursively, to the account."""
        os.chown(folder, self.uid, self.gid)

    def pass_through(self, path: Path) -> None:
        """Let the account reach `path` through every folder above it."""
        for folder in path.resolve().parents:
            if not self._passes(folder.stat()):
                _let_pass(folder, self.uid)

    def _passes(self, folder: os.stat_result) -> bool:
        return bool(folder.st_mode & stat.S_IXOTH) or (folder.st_uid == self.uid)


def for_postgres() -> Account | None:
    """The account to drop to; None when we are an ordinary user and need none."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        _create()
        entry = pwd.getpwnam(NAME)
    return Account(entry.pw_uid, entry.pw_gid)


def _create() -> None:
    command = [
        "useradd",
        "--system",
        "--user-group",
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        NAME,
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        raise MissingPart(
            f"Postgres does not run as root and the account {NAME!r} cannot be created",
            "run as an ordinary user, or create the account, or set FRONTSTAGE_POSTGRES_DSN",
        ) from None


def _let_pass(folder: Path, uid: int) -> None:
    try:
        os.setxattr(folder, ACL, _with_passage(_entries(folder), uid))
    except OSError:
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXOTH)


def _entries(folder: Path) -> list[tuple[int, int, int]]:
    """The folder's access-control entries (tag, permissions, id); made from its mode when it has none."""
    try:
        raw = os.getxattr(folder, ACL)
    except OSError:
        mode = folder.stat().st_mode
        parts = ((_USER_OBJ, mode >> 6), (_GROUP_OBJ, mode >> 3), (_OTHER, mode))
        return [(tag, bits & 7, _NOBODY) for tag, bits in parts]
    return list(_ENTRY.iter_unpack(raw[4:]))


def _with_passage(entries: list[tuple[int, int, int]], uid: int) -> bytes:
    """The entries plus "this user may pass"; the mask grows just enough to let it count."""
    kept = [entry for entry in entries if entry[0] != _MASK and entry[::2] != (_USER, uid)]
    mine = next((bits for tag, bits, who in entries if (tag, who) == (_USER, uid)), 0) | 1
    # Without a mask the group's own bits are the bound; with one, the mask is.
    bound = {tag: bits for tag, bits, _ in entries if tag in (_GROUP_OBJ, _MASK)}
    kept += [(_USER, mine, uid), (_MASK, bound.get(_MASK, bound[_GROUP_OBJ]) | mine, _NOBODY)]
    order = sorted(kept, key=lambda entry: (entry[0], entry[2]))
    return struct.pack("<I", 2) + b"".join(_ENTRY.pack(*entry) for entry in order)
