"""The Airflow plugin: adds the Frontstage page to the navigation, behind Airflow's own login.

Airflow loads plugins in every process, tasks included, so the page is not imported here, but created at the first
request. The wheel registers the plugin (entry point `airflow.plugins`), and so does a checkout.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.plugins_manager import AirflowPlugin

from etl.airflow.page.links import MOUNT, address

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send


class Page:
    """The page, created lazily at the first request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    @cached_property
    def app(self) -> FastAPI:
        from etl import settings
        from etl.airflow.page.access import AirflowAccess
        from etl.page.app import create_app
        from etl.stack import postgres

        own = settings.load()
        return create_app(own, lambda: postgres.dsn(own), AirflowAccess())

    def __str__(self) -> str:
        return "Frontstage"


class FrontstagePlugin(AirflowPlugin):  # type: ignore[misc]  # Airflow is not followed by mypy
    """The Frontstage page."""

    name = "frontstage"
    fastapi_apps: list[Any] = [{"app": Page(), "url_prefix": MOUNT, "name": "Frontstage"}]  # noqa: RUF012
    external_views: list[Any] = [  # noqa: RUF012 - as Airflow declares it
        {
            "name": "Frontstage",
            "href": address(),
            "destination": "nav",
            "url_route": "frontstage",
            "icon": address("static/icon.svg"),
            "icon_dark_mode": address("static/icon_dark.svg"),
            "nav_top_level": True,
        }
    ]
