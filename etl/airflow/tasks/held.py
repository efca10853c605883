"""Ask a person about a batch whose audit failed: from the pipeline's run to Airflow's required actions.

    visits:  micro_batch (failed) ─▶ ask_a_person ── run visits-12 of DAG `held` ──▶ describe ─▶ question ─▶ act

The question is a run of its own: it may wait for days, and the pipeline's runs need not. One run per batch, by its id.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

DAG_ID = "held"
RELEASE, REJECT = "Release", "Reject"
_WORDS = {RELEASE: "released", REJECT: "rejected"}


class AskAPerson(TriggerDagRunOperator):  # type: ignore[misc]  # Airflow is not followed by mypy
    """Starts the run of `held` for the newest batch of a pipeline that waits for a decision; skipped if none does."""

    def __init__(self, *, pipeline: str, **more: Any) -> None:
        super().__init__(trigger_dag_id=DAG_ID, skip_when_already_exists=True, **more)
        self.pipeline = pipeline

    def execute(self, context: Any) -> Any:
        from etl import settings
        from etl.adapters import ledger
        from etl.stack import postgres

        with ledger.reading(postgres.dsn(settings.load()), self.pipeline) as book:
            waiting = book.unjudged()
        if not waiting:
            raise AirflowSkipException("no batch waits for a decision")
        batch = waiting[-1].batch
        self.trigger_run_id = f"{self.pipeline}-{batch}"
        self.conf = {"pipeline": self.pipeline, "batch": batch}
        return super().execute(context)


def describe(pipeline: str, batch: int) -> str:
    """A summary for the decision, as Markdown; fails when no decision is needed."""
    from etl import settings
    from etl.adapters import ledger
    from etl.pipeline.review.held import Question
    from etl.stack import postgres

    own = settings.load()
    with ledger.reading(postgres.dsn(own), pipeline) as book:
        found = [record for record in book.unjudged() if record.batch == batch]
    if not found:
        raise AirflowSkipException(f"batch {batch} of {pipeline} does not wait for a decision")
    sentences = [_plain(one) for one in Question.of(found[0]).sentences()]
    where = f"Data Docs: `{own.data_docs / 'index.html'}`; report: `{own.reports / pipeline / str(batch)}`."
    choice = "*Release* lets its events into the warehouse, *Reject* puts them into quarantine."
    return "\n\n".join([*sentences, where, choice])


def _plain(sentence: str) -> str:
    """Escape text that may come from events for Markdown and HTML."""
    return "".join(f"\\{one}" if one in "\\`*_{}[]()<>#+!|" else one for one in sentence)


def act(pipeline: str, batch: int, response: dict[str, Any]) -> dict[str, Any]:
    """Record the person's choice; the pipeline's next run applies it."""
    from datetime import UTC, datetime

    from etl import settings
    from etl.errors import TerminalError
    from etl.pipeline.review.held import answer
    from etl.pipeline.review.release import Person
    from etl.stack import postgres

    own = settings.load()
    user, note = response.get("responded_by_user") or {}, (response.get("params_input") or {}).get("note") or ""
    (chosen,) = response["chosen_options"]
    person = Person(user.get("name") or user.get("id") or "airflow", datetime.now(UTC), note)
    word = _WORDS[chosen]
    try:
        first = answer(own, postgres.dsn(own), pipeline, batch, word, person)  # type: ignore[arg-type]
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None
    return {"pipeline": pipeline, "batch": batch, "word": word, "by": person.by, "decided_before": not first}
