"""The page's port to Airflow: login, permissions, DAGs, runs, audit log.

A user who may start runs of a pipeline's DAG may see its data and act on it (ADR 79). A run is started as by Airflow's
own form: the DAG's params are validated, the run records the user, and the audit log gets an entry.
"""

from __future__ import annotations

import json
from urllib.parse import urlencode

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.auth.tokens import get_signing_key
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from fastapi import HTTPException, Request

from etl.page.ports import Dag, NotLoggedIn, Order, RunRefused, User


class AirflowAccess:
    """This Airflow, as `etl.page.ports.Access`."""

    async def user(self, request: Request) -> User:
        try:
            found = await get_user(request, None, await bearer_scheme(request))
        except HTTPException:  # missing, expired or forged: the user has to log in
            raise NotLoggedIn from None
        return User(str(found.get_id()), str(found.get_name()), found)

    def may_run(self, user: User, dag: str) -> bool:
        details, entity = _details(dag), DagAccessEntity.RUN
        manager = get_auth_manager()
        return bool(manager.is_authorized_dag(method="POST", access_entity=entity, details=details, user=user.who))

    def dag(self, name: str) -> Dag | None:
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            found = session.get(DagModel, name)
            return None if found is None or found.is_stale else Dag(name, bool(found.is_paused))

    def start(self, user: User, order: Order) -> str:
        from airflow.api.common.trigger_dag import trigger_dag
        from airflow.exceptions import AirflowException
        from airflow.models.dag import DagModel
        from airflow.models.log import Log
        from airflow.utils.session import create_session
        from airflow.utils.types import DagRunTriggeredByType

        try:
            with create_session() as session:
                run = trigger_dag(
                    order.dag,
                    triggered_by=DagRunTriggeredByType.UI,
                    triggering_user_name=user.name,
                    conf=dict(order.conf),
                    note=order.note or None,
                    session=session,
                )
                if run is None:
                    raise RunRefused(order.dag, "Airflow gave no reason")
                found = session.get(DagModel, order.dag)
                if order.unpause and found is not None and found.is_paused and self._may_unpause(user, order.dag):
                    found.is_paused = False
                detail = json.dumps({"conf": dict(order.conf), "note": order.note, "run_id": run.run_id})
                session.add(
                    Log(
                        event=f"frontstage.{order.action}",
                        owner=user.id,
                        owner_display_name=user.name,
                        dag_id=order.dag,
                        run_id=run.run_id,
                        extra=detail,
                    )
                )
                return str(run.run_id)
        except (AirflowException, ValueError) as error:
            raise RunRefused(order.dag, " ".join(str(error).split())) from None

    def _may_unpause(self, user: User, dag: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="PUT", details=_details(dag), user=user.who))

    def run_state(self, dag: str, run_id: str) -> str | None:
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            found = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag, DagRun.run_id == run_id))
            return None if found is None else str(found)

    def secret(self) -> bytes:
        return str(get_signing_key("api", "secret_key")).encode()

    def login_url(self, request: Request) -> str:
        login = str(get_auth_manager().get_url_login())
        return f"{login}{'&' if '?' in login else '?'}{urlencode({'next': str(request.url)})}"


def _details(dag: str) -> DagDetails:
    """A DAG's details for auth managers, with its team if Airflow is multi-team."""
    from airflow.models.dag import DagModel

    teams = conf.getboolean("core", "multi_team", fallback=False)
    return DagDetails(id=dag, team_name=DagModel.get_team_name(dag) if teams else None)
