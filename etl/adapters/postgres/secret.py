"""A DSN that is sent with tasks: encrypted when pickled, decrypted where the key is (ADR 112).

    driver: pickled ── encrypted ── Spark's memory and files ── worker: decrypted
       └─ key ───────────────────── by environment ────────────────┘

Spark passes its environment only to Python workers on the same machine. Every program that starts such a Spark draws a
new key, which is written nowhere. Without a key (on a cluster), a DSN is pickled in the clear, and Spark's own
encryption has to protect it.
"""

from __future__ import annotations

import os

from etl.errors import TerminalError

KEY = "_FRONTSTAGE_TASK_SECRET"


class Sealed(TerminalError):
    """A process without the key got an encrypted DSN."""

    def __str__(self) -> str:
        return (
            "a task cannot open the DSN of its master: it runs on another machine than the driver, or in a Spark that "
            "was started earlier; start the driver again"
        )


class SecretDsn(str):
    """A DSN that hides itself in `repr` and is encrypted when pickled."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SecretDsn()"

    def __reduce__(self) -> tuple[object, tuple[str] | tuple[bytes]]:
        if KEY not in os.environ:
            return SecretDsn, (str(self),)
        from cryptography.fernet import Fernet

        return _opened, (Fernet(os.environ[KEY]).encrypt(self.encode()),)


def draw_key() -> None:
    """Draw a key for this process and for the processes it starts."""
    from cryptography.fernet import Fernet

    os.environ.setdefault(KEY, Fernet.generate_key().decode())


def _opened(sealed: bytes) -> SecretDsn:
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return SecretDsn(Fernet(os.environ[KEY]).decrypt(sealed).decode())
    except (KeyError, ValueError, InvalidToken):  # no key, an invalid one, or another one
        raise Sealed from None
