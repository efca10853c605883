"""The change log of master tables, which master pages follow; and how the joins fared, beside every batch."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"

_CHANGE_LOG = Path(__file__).resolve().parents[3] / "sql" / "master_change_log.sql"
_FED = """
select master.keep_change_log('master.customers', 'customer_id');
select master.keep_change_log('master.products', 'product_id');
alter table etl.batch add column engine jsonb not null default '{}';
"""


def upgrade() -> None:
    # Straight to the driver: alembic would take the text's colons for bound values.
    op.get_bind().exec_driver_sql(_CHANGE_LOG.read_text().replace("%", "%%"))
    op.execute(_FED)


def downgrade() -> None:
    op.execute(
        """
        alter table etl.batch drop column engine;
        drop function master.keep_change_log(regclass, text[]) cascade;
        drop function master.log_change() cascade;
        drop table master.change_log, master.change_log_pruned;
        """
    )
