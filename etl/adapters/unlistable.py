"""Landing folders that cannot be listed: one sentence that says why, and whether it may pass by itself.

    folder ── scan ── OSError ──▶ unlistable ──┬─ LandingAway   transient: a mount that does not answer, a failing disk
                                               └─ LandingShut   terminal: permissions, a file in the folder's place

Only the pipeline of that folder stops. See ADR 126.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from etl.adapters.regular_file import reason_of
from etl.errors import TerminalError, TransientError

_PERMISSIONS: Final = "let the account that runs Frontstage list, enter and write it (`chmod`, `chown`)"
_REMEDIES: Final = {
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
    errno.EEXIST: "take away what is in its place",
    errno.ENOTDIR: "take away what is in its place, or in that of a folder above it",
    errno.ELOOP: "a link in its path leads back to itself: correct it",
    errno.ENAMETOOLONG: "declare a shorter path in the pipeline's file",
    errno.EROFS: "make it, or mount its file system so that it can be written",
}
"""What a person has to do; any other cause may pass by itself."""


class LandingAway(TransientError):
    """A landing folder does not answer."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder, self.reason = folder, reason

    @property
    def what(self) -> str:
        return f"landing folder {self.folder!a} does not answer ({self.reason})"

    @property
    def remedy(self) -> str:
        return "it is tried again; if it is on another machine, see that it is mounted"

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


class LandingShut(TerminalError):
    """A landing folder cannot be listed until somebody changes something."""

    exit_code = 66  # EX_NOINPUT

    def __init__(self, folder: str, reason: str, remedy: str) -> None:
        super().__init__(folder, reason, remedy)
        self.folder, self.reason, self.remedy = folder, reason, remedy

    @property
    def what(self) -> str:
        return f"landing folder {self.folder!a} cannot be listed ({self.reason})"

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


Unlistable = LandingAway | LandingShut


def unlistable(folder: Path, error: OSError) -> Unlistable:
    """Our error for the system's."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return LandingAway(str(folder), reason_of(error))
    return LandingShut(str(folder), reason_of(error), remedy)


def is_absent(folder: Path) -> bool:
    """Whether there is nothing at all in the folder's place: nothing has landed, and nothing is wrong."""
    try:
        folder.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
