"""Tasks that refresh and maintain master pages, one master each."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, Metadata, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException


def master_asset(master: str) -> Asset:
    """The asset of a master's rows, on which other DAGs can be scheduled."""
    return Asset(f"master-{master}")


def run_work(work: str, master: str) -> dict[str, Any]:
    """Run one operation on one master; a terminal error fails the task for good, any other is retried."""
    from etl import settings
    from etl.errors import TerminalError
    from etl.masters.pages.errors import NothingPublished
    from etl.masters.upkeep.maintenance import ReadDirectly, run
    from etl.stack import postgres

    own = settings.load()
    try:
        return run(own, lambda: postgres.dsn(own), work, master)
    except ReadDirectly as error:
        raise AirflowSkipException(str(error)) from None
    except NothingPublished:
        raise AirflowSkipException(f"no pipeline has used master {master} yet") from None
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None


def refreshing(master: str) -> Any:
    """Refresh the pages; emits an asset event when rows changed, else the task is skipped."""
    asset = master_asset(master)

    @task(outlets=[asset])
    def refresh() -> Any:
        done = run_work("publish" if get_current_context()["params"]["publish"] else "refresh", master)
        if not done["news"]:
            raise AirflowSkipException("no row has changed")
        yield Metadata(asset, extra={name: done[name] for name in ("master", "version", "rows", "changed", "whole")})
        return done

    return refresh()


def care(work: str, master: str) -> Any:
    """One operation on a master's pages, whether or not they have changed."""

    @task(task_id=work, trigger_rule="none_failed")
    def caring() -> dict[str, Any]:
        return run_work(work, master)

    return caring()
