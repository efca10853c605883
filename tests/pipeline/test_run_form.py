"""What somebody asks of one run holds for that run alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from etl.pipeline.review.run_form import RunForm
from tests.support.site import Site, order


def test_a_tactic_and_a_budget_are_taken_for_one_run(site: Site) -> None:
    site.land("one.jsonl", *[order(number) for number in range(1, 21)])
    asked = replace(site, steps=site.steps.asked(RunForm(tactic="meshjoin", budget_bytes=2**21)))
    assert asked.run() == 1
    assert set(site.record(1).joins["customer"]["tactics"]) == {"meshjoin"}
    assert site.totals()["fact"] == 20
    assert (site.steps.settings.tactic, site.steps.form) == ("auto", RunForm())


def test_a_deadline_and_shedding_are_taken_for_one_run_and_not_remembered(site: Site) -> None:
    site.land("one.jsonl", order(1))
    asked = replace(site, steps=site.steps.asked(RunForm(deadline_s=5, shedding="none")))
    with asked.writing() as run:
        assert run.resolved.pipeline.deadline.total_seconds() == 5
        assert run.resolved.pipeline.shedding == "none"
        declared = run.ledger.declared()
    assert asked.run() == 1
    with site.writing() as run:
        assert run.resolved.pipeline.deadline.total_seconds() == 30
        assert run.ledger.declared() == declared


@pytest.mark.parametrize(
    "wrong", [{"tactic": "fast"}, {"budget_bytes": 5}, {"deadline_s": 0}, {"shedding": "all"}, {"speed": "high"}]
)
def test_what_no_run_can_do_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RunForm.model_validate(wrong)
