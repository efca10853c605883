"""Every error Frontstage raises on purpose: one root, two kinds.

`TransientError`  the same call may succeed later: Airflow retries the task.
`TerminalError`   nothing changes until a person acts: the task fails at once, the message says what to do.

Errors keep their parts as attributes and survive pickling, so they cross process borders whole.
"""

from __future__ import annotations


class FrontstageError(Exception):
    """The root. Its text is one sentence fit for a user."""

    exit_code = 1


class TransientError(FrontstageError):
    """Worth another try."""

    exit_code = 75  # EX_TEMPFAIL


class TerminalError(FrontstageError):
    """Retrying is useless until somebody changes something."""


class SettingsError(TerminalError):
    """A setting is unknown or has a value that is not allowed."""

    exit_code = 78  # EX_CONFIG


class Busy(TransientError):
    """Another writer holds the lock."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder

    def __str__(self) -> str:
        return f"the warehouse is being written by {self.holder}; one writer at a time, so try again when it is done"


class MasterUnavailable(TransientError):
    """The source of master data does not answer."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.source = source

    def __str__(self) -> str:
        return f"master source {self.source!r} does not answer; the batch will be retried"


class PostgresUnavailable(TransientError):
    """Postgres does not answer. `where` is a host or socket folder, never a whole DSN."""

    exit_code = 69  # EX_UNAVAILABLE

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"Postgres at {self.where} does not answer ({self.reason}); start it or correct FRONTSTAGE_POSTGRES_DSN"


class AuditFailed(TerminalError):
    """The audit failed: the batch is held, and nothing of it is published."""

    def __init__(self, pipeline: str, batch: int, expectations: tuple[str, ...], data_docs: str) -> None:
        super().__init__(pipeline, batch, expectations, data_docs)
        self.pipeline, self.batch, self.expectations, self.data_docs = pipeline, batch, expectations, data_docs

    def __str__(self) -> str:
        failed = ", ".join(self.expectations)
        return (
            f"batch {self.batch} of {self.pipeline} is held: {failed} failed; see {self.data_docs}, then fix the cause "
            f"and run again, or `frontstage run {self.pipeline} --release {self.batch}`"
        )


class PortTaken(TerminalError):
    """A port that the stack needs is in use."""

    exit_code = 69

    def __init__(self, port: int, setting: str) -> None:
        super().__init__(port, setting)
        self.port, self.setting = port, setting

    def __str__(self) -> str:
        return f"port {self.port} on 127.0.0.1 is taken by another program; free it or set {self.setting}"


class MissingPart(TerminalError):
    """A requirement of the machine is missing (Java, jars, disk space, a running stack)."""

    exit_code = 69

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what, self.remedy = what, remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"
