"""Streams of correlations have refused lines too: words about them stand under `streams/NAME`."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.execute(
        """
        alter table etl.release_file drop constraint release_file_pipeline_fkey;
        alter table etl.quarantine_verdict drop constraint quarantine_verdict_pipeline_fkey;
        """
    )


def downgrade() -> None:
    op.execute(
        """
        delete from etl.quarantine_verdict where pipeline like 'streams/%';
        delete from etl.release_file where pipeline like 'streams/%';
        alter table etl.release_file add foreign key (pipeline) references etl.pipeline;
        alter table etl.quarantine_verdict add foreign key (pipeline) references etl.pipeline;
        """
    )
