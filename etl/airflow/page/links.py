"""The address of the Frontstage page in this Airflow, and links from tasks to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import XComArg

MOUNT = "/frontstage"


def address(path: str = "") -> str:
    """The URL path of the page, including this Airflow's prefix, if any."""
    return f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}{MOUNT}/{path}"


class _RunLink(BaseOperatorLink):  # type: ignore[misc]  # Airflow is not followed by mypy
    """A link by run id; the page resolves the batch when the link is followed."""

    to: str

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        home = "c" if ti_key.dag_id == "correlations" else f"p/{ti_key.dag_id}"
        return address(f"{home}/run?{urlencode({'id': ti_key.run_id, 'to': self.to})}")


class PageLink(_RunLink):
    """The batch on the Frontstage page."""

    name, to = "Frontstage page", "batch"


class ReportLink(_RunLink):
    """The run report of the batch."""

    name, to = "Run report", "report"


class DataDocsLink(_RunLink):
    """What Great Expectations found in the batch."""

    name, to = "Data Docs", "docs"


def link(task: XComArg, *links: type[_RunLink]) -> XComArg:
    """Give a task its links; Airflow shows them above the details of its instances."""
    task.operator.operator_extra_links = tuple(each() for each in links)
    return task
