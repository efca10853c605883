"""Why is a pipeline stuck? Findings in words, each with its remedy.

    ledger, landing folder ──▶ Facts ──▶ diagnose ──▶ Diagnosis(state, what, remedy), most severe first

`diagnose` is a pure function of the facts. Only what stops events, or soon will, is a finding; an idle pipeline is
healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from etl.adapters import landing, unreadable
from etl.adapters.landing import Consumed, LandedFile, Limits
from etl.adapters.ledger import BacklogFile, BatchRecord, Ledger
from etl.adapters.unlistable import LandingAway, LandingShut, Unlistable, is_absent
from etl.adapters.unreadable import Unreadable
from etl.contract.model import Pipeline

State = Literal["well", "warning", "stuck"]
_PATIENCE = 4  # deadlines that input may stay unread before it is a finding
_LEAST_PATIENCE = timedelta(minutes=2)
_TRIED = 1_000  # oldest unread files that are tried: a look must not take longer with every file that waits


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding about a pipeline, and its remedy."""

    pipeline: str
    state: State
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of a diagnosis."""

    pipeline: Pipeline
    now: datetime
    has_run: bool = True
    unloaded: BatchRecord | None = None
    is_written: bool = False
    unread_files: int = 0
    unread_since: datetime | None = None
    unreadable: tuple[Unreadable, ...] = ()  # these are not among the unread files
    unlistable: Unlistable | None = None  # why the landing folder cannot be listed
    backlog: tuple[BacklogFile, ...] = ()


def gather(pipeline: Pipeline, folder: Path, book: Ledger, now: datetime, *, with_backlog: bool = True) -> Facts:
    """The facts about one pipeline, from its ledger and landing folder; a large backlog makes `with_backlog` slow."""
    files, fault = _listed(pipeline, folder)
    consumed = book.consumed([file.name for file in files]) if files else {}
    unread = [file for file in files if file.name not in consumed or consumed[file.name].end < file.size]
    shut = unreadable.find(folder, unread[:_TRIED], consumed)
    named = {one.file for one in shut}
    unread = [file for file in unread if file not in named]
    unread = [
        *(file for file in unread[:_TRIED] if _has_lines(folder, file, consumed, pipeline, now)),
        *unread[_TRIED:],
    ]
    oldest = min((file.modified_ns for file in unread), default=None)
    return Facts(
        pipeline=pipeline,
        now=now,
        has_run=book.declared() is not None,
        unloaded=book.oldest_unloaded(),
        is_written=book.is_written(),
        unread_files=len(unread),
        unread_since=None if oldest is None else _moment(oldest),
        unreadable=shut,
        unlistable=fault,
        backlog=book.backlog_files() if with_backlog else (),
    )


def _has_lines(
    folder: Path, file: LandedFile, consumed: Mapping[bytes, Consumed], pipeline: Pipeline, now: datetime
) -> bool:
    """Whether a batch would read something of a file: the beginning of a line that is still written waits."""
    return bool(landing.fix_slices(folder, [file], consumed, pipeline.stream.source.format, now, Limits(batch_bytes=1)))


def _listed(pipeline: Pipeline, folder: Path) -> tuple[list[LandedFile], Unlistable | None]:
    """The landed files, or why they cannot be listed."""
    try:
        return landing.scan(folder, pipeline.stream.source.format), None
    except (LandingAway, LandingShut) as error:
        return [], error


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)


def diagnose(facts: Facts) -> tuple[Diagnosis, ...]:
    """All findings, most severe first; a single healthy one when there are none."""
    found = [*_of_folder(facts), *_of_batch(facts), *_of_input(facts), *_of_unreadable(facts), *_of_backlog(facts)]
    if not found:
        found = [Diagnosis(facts.pipeline.name, "well", _healthy(facts))]
    return tuple(sorted(found, key=lambda one: ("stuck", "warning", "well").index(one.state)))


def stuck(pipeline: Pipeline, folder: Path, book: Ledger, now: datetime) -> Diagnosis | None:
    """Why nothing is loaded although there is input; None when the pipeline moves. Creates no folder."""
    if is_absent(folder):
        return None
    gravest = diagnose(gather(pipeline, folder, book, now, with_backlog=False))[0]
    return gravest if gravest.state == "stuck" else None


def _healthy(facts: Facts) -> str:
    if not facts.has_run:
        return "has not run yet; nothing has landed"
    return "a batch is under way" if facts.is_written else "nothing waits to be read or loaded"


def _of_folder(facts: Facts) -> Iterator[Diagnosis]:
    fault = facts.unlistable
    if fault is not None:
        yield Diagnosis(facts.pipeline.name, "stuck", fault.what, fault.remedy)


def _of_batch(facts: Facts) -> Iterator[Diagnosis]:
    record, name = facts.unloaded, facts.pipeline.name
    if record is None:
        return
    if record.state == "held":
        failed = [one["name"] for one in (record.audit or {}).get("expectations", ()) if not one["success"]]
        yield Diagnosis(
            name,
            "stuck",
            f"batch {record.batch} is held: {', '.join(failed[:3]) or 'its audit failed'}; all later batches wait",
            f"look with `frontstage report show {name} --batch {record.batch}`; then let it pass with "
            f"`frontstage run {name} --release {record.batch}`, or correct the expectation in its file",
        )
    elif not facts.is_written and facts.now - record.started_at > _patience(facts):
        yield Diagnosis(
            name,
            "stuck",
            f"batch {record.batch} is {record.state} for {_ago(facts.now - record.started_at)}; nobody works on it",
            f"the last run has failed or the schedule is paused: look at the DAG `{name}` in Airflow, unpause or "
            f"clear it, or run `frontstage run {name}`",
        )


def _of_input(facts: Facts) -> Iterator[Diagnosis]:
    since, name = facts.unread_since, facts.pipeline.name
    held = facts.unloaded is not None and facts.unloaded.state == "held"
    if since is None or facts.is_written or held or facts.now - since <= _patience(facts):
        return
    files = "1 file lies" if facts.unread_files == 1 else f"{facts.unread_files} files lie"
    yield Diagnosis(
        name,
        "stuck",
        f"{files} unread for {_ago(facts.now - since)}",
        f"is the stack up (`frontstage status`) and the DAG `{name}` unpaused? `frontstage run {name}` reads them now",
    )


def _of_unreadable(facts: Facts) -> Iterator[Diagnosis]:
    if facts.unreadable:
        oldest = facts.now - _moment(min(one.file.modified_ns for one in facts.unreadable))
        yield Diagnosis(
            facts.pipeline.name,
            "stuck" if oldest > _patience(facts) else "warning",
            unreadable.waiting_sentence(facts.unreadable),
            unreadable.REMEDY,
        )


def _of_backlog(facts: Facts) -> Iterator[Diagnosis]:
    name = facts.pipeline.name
    for cause, what, remedy in (
        ("master", "wait for a row of a master",
         "see which with `frontstage explain-event`; load the rows, then `frontstage master refresh`"),
        ("time", "were deferred for want of time",
         "they are served when load allows; if it never does, raise the deadline or give Spark more cores"),
    ):  # fmt: skip
        files = [file for file in facts.backlog if file.cause == cause]
        if files:
            oldest = facts.now - min(file.since for file in files)
            state: State = "warning" if oldest > _patience(facts) else "well"
            waiting = sum(file.waiting for file in files)
            yield Diagnosis(name, state, f"{waiting:,} events {what}, the oldest since {_ago(oldest)}", remedy)


def _patience(facts: Facts) -> timedelta:
    return max(_LEAST_PATIENCE, _PATIENCE * facts.pipeline.deadline)


def _ago(span: timedelta) -> str:
    seconds = max(0, round(span.total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{seconds} seconds"
