"""Is the warehouse fresh, complete and correct? One answer to each, with the pipelines and reasons if it is no.

    PipelineNow … ──▶ verdict ──▶ Answer("Fresh", "no", ("a pipeline", "2 files lie unread for 5 minutes"))

A pipeline that has never run does not count; it is late only once it has input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from etl.page.queries.overview import PipelineNow, Tone
from etl.report import figures

_Problem = Callable[[PipelineNow], tuple[Tone, str] | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question: a word, the reason, and the pipelines with problems."""

    question: str
    tone: Tone
    word: str
    note: str
    problems: tuple[tuple[str, str], ...] = ()  # pipeline, sentence


def verdict(pipelines: Sequence[PipelineNow]) -> tuple[Answer, ...]:
    """The three answers, in the order of the question."""
    running = [one for one in pipelines if one.has_run or one.stuck]
    return (
        _answer("Fresh", running, _not_fresh, _freshest),
        _answer("Complete", running, _not_complete, _counted),
        _answer("Correct", running, _not_correct, _checked),
    )


def _answer(
    question: str, running: Sequence[PipelineNow], problem: _Problem, note: Callable[[Sequence[PipelineNow]], str]
) -> Answer:
    if not running:
        return Answer(question, "calm", "not yet", "nothing has been loaded")
    found = [(one.name, each) for one in running if (each := problem(one)) is not None]
    if not found:
        return Answer(question, "good", "yes", note(running))
    worst: Tone = "bad" if any(tone == "bad" for _, (tone, _) in found) else "warn"
    which = f"in {len(found)} of {len(running)} pipelines" if len(running) > 1 else ""
    said = tuple((name, sentence) for name, (_, sentence) in found)
    return Answer(question, worst, "no" if worst == "bad" else "not quite", which, said)


def _not_fresh(one: PipelineNow) -> tuple[Tone, str] | None:
    if one.held is not None:
        return None  # waits for a decision; reported under "correct"
    if one.stuck is not None:
        return "bad", one.stuck.what
    if one.overloaded:
        return "warn", "more arrives than one batch serves in time"
    if one.late and one.last is not None:
        fresh, due = figures.duration(one.last.fresh_p95_s), figures.duration(one.deadline.total_seconds())
        return "warn", f"the newest batch took {fresh}, and {due} is its deadline"
    return None


def _not_complete(one: PipelineNow) -> tuple[Tone, str] | None:
    return ("bad", f"{abs(one.missing):,} events are not in exactly one place") if one.missing else None


def _not_correct(one: PipelineNow) -> tuple[Tone, str] | None:
    if one.held is not None:
        return "bad", f"batch {one.held.batch} failed its audit and waits for a decision"
    if one.audit is not None and not one.audit["success"] and one.last is not None:
        return "warn", f"batch {one.last.batch} was loaded although its audit failed"
    return None


def _freshest(running: Sequence[PipelineNow]) -> str:
    ages = [one.last.fresh_p95_s for one in running if one.last is not None and one.last.fresh_p95_s is not None]
    return f"95 of 100 events were visible within {figures.duration(max(ages))}" if ages else "nothing waits"


def _counted(running: Sequence[PipelineNow]) -> str:
    lines = sum(one.totals.get("lines", 0) for one in running)
    waiting = sum(one.totals.get("backlog_open", 0) for one in running)
    rest = f"; {figures.counted(waiting, 'waits', 'wait')} in the backlog" if waiting else ""
    return f"each of {lines:,} events is in exactly one place{rest}"


def _checked(running: Sequence[PipelineNow]) -> str:
    refused = sum(one.totals.get("quarantine_open", 0) for one in running)
    rest = f"; {figures.counted(refused, 'refused line waits', 'refused lines wait')} for a decision" if refused else ""
    return f"the last audits passed{rest}"
