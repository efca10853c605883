"""Whoever may change a master table may: its log is written with the rights of the log's owner, not with theirs."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.execute("alter function master.log_change() security definer set search_path = pg_catalog, pg_temp")
    op.execute("revoke execute on function master.log_change() from public")  # no trigger on a table of somebody else's


def downgrade() -> None:
    op.execute("grant execute on function master.log_change() to public")
    op.execute("alter function master.log_change() security invoker reset search_path")
