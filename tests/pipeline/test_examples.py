"""The shipped pipelines, from their generators to the mart: formats, composite keys, optional and twice-met masters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from etl.samples.examples import EXAMPLES
from tests.support.site import Site


@pytest.mark.parametrize("name", ["trips", "web_sessions"])
def test_generated_events_end_exactly_where_the_generator_says(site: Site, name: str) -> None:
    here = site.of(name)
    EXAMPLES[name].seed(here.dsn, here.settings.var)
    start = datetime.now(UTC) - timedelta(minutes=5)
    first = EXAMPLES[name].generate(here.landing, 600, 1, start)
    assert here.run() == 1
    second = EXAMPLES[name].generate(here.landing, 300, 2, start)
    assert here.run() == 2
    counted = here.inventory()
    assert counted.faults == []
    assert counted.raw_lines == first.lines + second.lines
    assert counted.fact == first.fact + second.fact
    assert counted.quarantine == first.quarantined + second.quarantined
    assert counted.backlog_open == first.backlog + second.backlog
    assert counted.duplicates == first.duplicates + second.duplicates
    reasons = here.record(1).counts.reasons
    assert all(reasons[name] >= count for name, count in first.reasons.items()), "an event may have others beside it"
    assert reasons.keys() == first.reasons.keys()
    (table,) = counted.mart
    assert here.execute(f"select count(*) from mart.{table}") == [(counted.fact,)]


def test_aggregates_of_the_mart_are_what_its_rows_add_up_to(site: Site) -> None:
    here = site.of("web_sessions")
    EXAMPLES["web_sessions"].seed(here.dsn, here.settings.var)
    for seed in (1, 2):
        EXAMPLES["web_sessions"].generate(here.landing, 400, seed, datetime.now(UTC) - timedelta(minutes=5))
        here.run()
    daily = here.execute("select day, team, channel, sessions, pages, revenue, longest from mart.daily_sessions")
    truth = here.execute(
        "select started_at::date, site_team, coalesce(campaign_channel, 'direct'), count(*), sum(pages), sum(revenue), "
        "max(pages) from mart.web_sessions group by 1, 2, 3"
    )
    assert sorted(daily) == sorted(truth)
    assert len(daily) > 1
