"""A DSN that travels with tasks: sealed wherever it is pickled, and opened where the key is (ADR 112).

    driver: pickled ── sealed ── Spark's memory and files ── worker: opened
       └─ key ──────────────────── by environment ─────────────┘

Spark hands its own environment on to the Python workers of the same machine, and to nobody else. The key is drawn anew
by every program that starts such a Spark, and is written nowhere. Where there is no key (a cluster), a DSN is pickled
as it is, and Spark's own encryption has to protect it.
"""

from __future__ import annotations

import os

from etl.errors import TerminalError

KEY = "_FRONTSTAGE_TASK_SECRET"


class Sealed(TerminalError):
    """A DSN came to a process that has no key for it."""

    def __str__(self) -> str:
        return (
            "a task cannot open the DSN of its master: it runs on another machine than the driver, or in a Spark that "
            "was started earlier; start the driver again"
        )


class SecretDsn(str):
    """A DSN as any other, but for two things: it does not show itself, and it is pickled under seal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SecretDsn()"

    def __reduce__(self) -> tuple[object, tuple[str] | tuple[bytes]]:
        if KEY not in os.environ:
            return SecretDsn, (str(self),)
        from cryptography.fernet import Fernet

        return _opened, (Fernet(os.environ[KEY]).encrypt(self.encode()),)


def draw_key() -> None:
    """Have a key from now on, and all that this program starts with it."""
    from cryptography.fernet import Fernet

    os.environ.setdefault(KEY, Fernet.generate_key().decode())


def _opened(sealed: bytes) -> SecretDsn:
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return SecretDsn(Fernet(os.environ[KEY]).decrypt(sealed).decode())
    except (KeyError, ValueError, InvalidToken):  # none, no key at all, or another one
        raise Sealed from None
