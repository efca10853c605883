"""Figures of a batch as columns of their own, so that a month of history is read from an index alone."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

_FIGURES = {
    "lines": "bigint: coalesce((counts ->> 'lines')::bigint, etl.sum_of(decision -> 'streams', 'lines'))",
    "accepted": "bigint: coalesce((counts ->> 'accepted')::bigint, etl.sum_of(decision -> 'streams', 'accepted'))",
    "quarantined": "bigint: coalesce((counts ->> 'quarantined')::bigint, "
    "etl.sum_of(decision -> 'streams', 'quarantined'))",
    "duplicates": "bigint: (counts ->> 'duplicates')::bigint",
    "backlog_added": "bigint: (counts ->> 'backlog_added')::bigint",
    "backlog_resolved": "bigint: (counts ->> 'backlog_resolved')::bigint",
    "shed": "bigint: (counts ->> 'shed')::bigint",
    "probes": "bigint: etl.sum_of(counts -> 'joins', 'probes')",
    "hits": "bigint: etl.sum_of(counts -> 'joins', 'hits')",
    "pairs": "bigint: etl.sum_of(decision -> 'correlations', 'pairs')",
    "late": "bigint: etl.sum_of_each(decision -> 'correlations', 'late')",
    "took_s": "double precision: etl.sum_of_values(seconds)",
    "fresh_p50_s": "double precision: (freshness ->> 'p50')::double precision",
    "fresh_p95_s": "double precision: (freshness ->> 'p95')::double precision",
}

_FUNCTIONS = """
create function etl.sum_of(parts jsonb, name text) returns bigint language sql immutable parallel safe as
    $$ select sum((value ->> name)::bigint)::bigint from jsonb_each(parts) $$;
create function etl.sum_of_values(parts jsonb) returns double precision language sql immutable parallel safe as
    $$ select sum(value::double precision) from jsonb_each_text(parts) $$;
create function etl.sum_of_each(parts jsonb, name text) returns bigint language sql immutable parallel safe as
    $$ select sum(each.value::bigint)::bigint
       from jsonb_each(parts) as part, jsonb_each_text(part.value -> name) as each $$;
"""


def upgrade() -> None:
    op.execute(_FUNCTIONS)
    added = []
    for name, figure in _FIGURES.items():
        type_name, expression = figure.split(": ", 1)
        added.append(f"add column {name} {type_name} generated always as ({expression}) stored")
    op.execute(f"alter table etl.batch {', '.join(added)}")
    op.execute(
        f"create index batch_history on etl.batch (pipeline, loaded_at) include ({', '.join(_FIGURES)}) "
        "where loaded_at is not null"
    )
    op.execute("create index batch_run on etl.batch (pipeline, run_id)")


def downgrade() -> None:
    op.execute("drop index etl.batch_run; drop index etl.batch_history")
    op.execute(f"alter table etl.batch {', '.join(f'drop column {name}' for name in _FIGURES)}")
    op.execute(
        "drop function etl.sum_of(jsonb, text); drop function etl.sum_of_values(jsonb); "
        "drop function etl.sum_of_each(jsonb, text)"
    )
