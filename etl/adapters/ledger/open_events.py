"""Claimed keys and waiting events: runs of claims, files of the backlog and of events with an unknown member."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime

from etl.adapters import postgres
from etl.adapters.claims import ClaimRun
from etl.adapters.ledger.records import BacklogFile, Cause, Decision
from etl.adapters.postgres.statements import Statements


class OpenEvents(Statements):
    """Statements about claims and waiting events; a decision changes them."""

    def claim_runs(self) -> tuple[ClaimRun, ...]:
        """The current runs of claims."""
        rows = self._all("select path, entries, crc32, batch from etl.claim_run where pipeline = %(pipeline)s")
        return tuple(ClaimRun(**row) for row in rows)

    def _change_claims(self, added: Iterable[ClaimRun], removed: Iterable[ClaimRun]) -> None:
        self._execute(
            "delete from etl.claim_run where pipeline = %(pipeline)s and path = any(%(paths)s)",
            {"paths": [run.path for run in removed]},
        )
        for run in added:
            self._execute(postgres.statement("claim_run_add"), asdict(run))

    def backlog_files(self) -> tuple[BacklogFile, ...]:
        """Files of the backlog with open events, oldest first."""
        rows = self._all(
            "select path, batch, waiting, cause, since, retry from etl.backlog_file where pipeline = %(pipeline)s "
            "order by batch, path"
        )
        return tuple(BacklogFile(**row) for row in rows)

    def _change_backlog(self, batch: int, decided_at: datetime, decision: Decision) -> None:
        for path, count in decision.resolved.items():
            self._execute(postgres.statement("backlog_resolve"), {"path": path, "count": count}, rows=1)
        self._execute("delete from etl.backlog_file where pipeline = %(pipeline)s and waiting = 0")
        causes: dict[Cause, list[str]] = {"time": [], "master": []}
        for path, count in decision.deferred.items():
            causes["time" if count else "master"].append(path)
        for cause, paths in causes.items():
            self._execute(postgres.statement("backlog_cause"), {"cause": cause, "paths": paths})
        for file in decision.of_table("backlog"):
            self._execute(
                postgres.statement("backlog_add"),
                {
                    "path": file.path,
                    "batch": batch,
                    "waiting": file.rows,
                    "cause": file.cause,
                    "since": decided_at,
                },
            )

    def unknown_files(self) -> tuple[BacklogFile, ...]:
        """Files of events that are in the fact with an unknown member, oldest first."""
        rows = self._all(
            "select path, batch, waiting, 'correction' as cause, since, retry from etl.unknown_file "
            "where pipeline = %(pipeline)s order by batch, path"
        )
        return tuple(BacklogFile(**row) for row in rows)

    def _change_unknown(self, decided_at: datetime, decision: Decision) -> None:
        for path, count in decision.corrected.items():
            self._execute(postgres.statement("unknown_corrected"), {"path": path, "count": count}, rows=1)
        self._execute("delete from etl.unknown_file where pipeline = %(pipeline)s and waiting = 0")
        for file in decision.of_table("_unknown"):
            batch = int(file.path.split("-")[2])  # the accepting batch: events that were held are added by a later one
            values = {"path": file.path, "batch": batch, "waiting": file.rows, "since": decided_at}
            self._execute(postgres.statement("unknown_add"), values)

    def waiting_since(self, begin: datetime, end: datetime) -> tuple[int, int]:
        """How many events of this time range wait for a master row, and how many are facts with an unknown member."""
        (row,) = self._all(postgres.statement("waiting_since"), {"begin": begin, "end": end})
        return int(row["waiting"]), int(row["unknown"])

    def retry(self, paths: Sequence[str]) -> None:
        """Let the next batch try the events of these files again."""
        self._execute(postgres.statement("waiting_left"), {"paths": list(paths)})

    def retried(self, paths: Sequence[str]) -> None:
        """Clear the mark of files whose requested retry is done."""
        self._execute(postgres.statement("waiting_retried"), {"paths": list(paths)})
