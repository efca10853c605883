"""The question about a held batch: it waits for an answer in Airflow, or until the batch is decided elsewhere.

    ask ── deferred ──┬── an answer in Airflow ──▶ act
                      └── released or rejected by form, page or command ──▶ skipped: no answer is needed any more

Airflow's own operator waits only for the answer, and would stay open forever. It also asks again on a retry and loses
the answer it had: Airflow retries it when an answer arrives while the process that asked is still exiting (the executor
reports the end of a task that is already queued again). This operator uses that answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.hitl import upsert_hitl_detail
from airflow.triggers.base import TriggerEvent

DECIDED, UNASKED = "decided_elsewhere", "unasked"
_LOOK_S = 5.0


class HeldQuestion(HITLOperator):  # type: ignore[misc]  # Airflow is not followed by mypy
    """Asks about one batch of a pipeline."""

    template_fields = ("subject", "body", "pipeline", "batch")

    def __init__(self, *, pipeline: str, batch: str, **more: Any) -> None:
        super().__init__(**more)
        self.pipeline, self.batch = pipeline, batch

    def execute(self, context: Any) -> None:
        task = context["ti"]
        tried_again = task.try_number > 1 and task.max_tries == self.retries  # not cleared by a user
        if not tried_again:
            self._ask(task)
        self._wait(task)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        if DECIDED in event:
            raise AirflowSkipException(f"batch {self.batch} of {self.pipeline} does not wait for a decision any more")
        if UNASKED in event:
            self._ask(context["ti"])
            self._wait(context["ti"])
        return super().execute_complete(context, event)

    def _ask(self, task: Any) -> None:
        upsert_hitl_detail(
            ti_id=task.id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            params=self.serialized_params,
        )

    def _wait(self, task: Any) -> None:
        trigger = HeldTrigger(task.id, self.options, self.serialized_params, self.pipeline, int(self.batch))
        self.defer(trigger=trigger, method_name="execute_complete")


class HeldTrigger(HITLTrigger):  # type: ignore[misc]
    """Fires on an answer, or when the batch no longer waits for one according to the ledger."""

    def __init__(self, ti_id: Any, options: list[str], params: dict[str, Any], pipeline: str, batch: int) -> None:
        super().__init__(ti_id=ti_id, options=options, params=params, timeout_datetime=None)
        self.pipeline, self.batch = pipeline, batch

    def serialize(self) -> tuple[str, dict[str, Any]]:
        params = {name: self.params.get_param(name).serialize() for name in self.params}
        arguments = {
            "ti_id": self.ti_id,
            "options": self.options,
            "params": params,
            "pipeline": self.pipeline,
            "batch": self.batch,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        answers = super().run()
        answer = asyncio.ensure_future(anext(answers))
        try:
            while not (await asyncio.wait({answer}, timeout=_LOOK_S))[0]:
                if not await asyncio.to_thread(self._still_waits):
                    yield TriggerEvent({DECIDED: True})
                    return
            yield self._event(answer)
        finally:
            answer.cancel()

    def _event(self, answer: asyncio.Future[TriggerEvent]) -> TriggerEvent:
        error = answer.exception()
        return answer.result() if error is None else TriggerEvent({UNASKED: str(error)})

    def _still_waits(self) -> bool:
        """Whether a decision is still open; assumed while the ledger is unreachable."""
        from etl import settings
        from etl.adapters import ledger
        from etl.errors import FrontstageError
        from etl.stack import postgres

        try:
            with ledger.reading(postgres.dsn(settings.load()), self.pipeline) as book:
                return any(record.batch == self.batch for record in book.unjudged())
        except FrontstageError as error:
            self.log.warning("cannot ask the ledger about batch %s of %s: %s", self.batch, self.pipeline, error)
            return True
