"""A DSN that travels with tasks: sealed wherever it is pickled, and opened where the key is.

    driver: pickled ── sealed ── Spark's memory, its files, the network ── worker: opened
       └─ key ─────────────────── by environment, as Spark hands it on ─────┘

What Spark sends to its executors is in clear unless somebody has switched encryption on. The key is drawn anew by every
program that starts Spark, and outlives it nowhere.
"""

from __future__ import annotations

import os

from etl.errors import TerminalError

KEY = "_FRONTSTAGE_TASK_SECRET"
"""The variable with the key. Spark redacts what is called so wherever it shows settings."""


class Sealed(TerminalError):
    """A DSN came to a process that has no key for it."""

    def __str__(self) -> str:
        return (
            "a task cannot open the DSN of its master; let Frontstage start Spark, or publish the master as pages "
            "(FRONTSTAGE_MASTER_STORE=pages)"
        )


class SecretDsn(str):
    """A DSN as any other, but for two things: it does not show itself, and it is pickled under seal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SecretDsn()"

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        from cryptography.fernet import Fernet

        return _opened, (Fernet(key()).encrypt(self.encode()),)


def key() -> str:
    """The key of this program and of those that it starts."""
    from cryptography.fernet import Fernet

    return os.environ.setdefault(KEY, Fernet.generate_key().decode())


def _opened(sealed: bytes) -> SecretDsn:
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return SecretDsn(Fernet(os.environ[KEY]).decrypt(sealed).decode())
    except (KeyError, ValueError, InvalidToken):  # none, no key at all, or another one
        raise Sealed from None
