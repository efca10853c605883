"""Changes of a partitioned master are noted whichever table a statement names: the whole one, or a partition."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0020"
down_revision = "0019"

_CHANGE_LOG = Path(__file__).resolve().parents[3] / "sql" / "master_change_log.sql"


def upgrade() -> None:
    # What is there stays: the text makes tables that are missing, and the functions anew.
    op.get_bind().exec_driver_sql(_CHANGE_LOG.read_text().replace("%", "%%"))


def downgrade() -> None:
    """The functions of before note the same, but for partitions."""
