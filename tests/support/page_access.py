"""A host for the page in tests: users by a header, roles by name, DAGs and runs in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI, Request

from etl.page.ports import Dag, NotLoggedIn, Order, RunRefused, User

DAGS = ("orders", "trips", "web_sessions", "correlations", "quarantine", "master_data", "backlog", "query")


@dataclass
class MemoryAccess:
    """`may` says by user which DAGs they may start; a user who is not there may none."""

    may: dict[str, frozenset[str]]
    dags: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(DAGS, False))  # by name, whether it is paused
    started: list[tuple[str, Order]] = field(default_factory=list)
    refusal: str | None = None

    async def user(self, request: Request) -> User:
        name = request.headers.get("x-user")
        if name is None:
            raise NotLoggedIn
        return User(name, name.title())

    def may_run(self, user: User, dag: str) -> bool:
        return dag in self.may.get(user.id, frozenset())

    def dag(self, name: str) -> Dag | None:
        return Dag(name, self.dags[name]) if name in self.dags else None

    def start(self, user: User, order: Order) -> str:
        if self.refusal is not None:
            raise RunRefused(order.dag, self.refusal)
        self.started.append((user.id, order))
        return f"manual__{len(self.started)}"

    def run_state(self, dag: str, run_id: str) -> str | None:
        numbers = [f"manual__{number}" for number, (_, order) in enumerate(self.started, 1) if order.dag == dag]
        return "queued" if run_id in numbers else None

    def secret(self) -> bytes:
        return b"a secret of tests"

    def login_url(self, request: Request) -> str:
        return "/auth/login"


@dataclass(frozen=True)
class Client:
    """Asks an application in this process, as somebody; redirects are not followed."""

    app: FastAPI
    user: str | None = None

    def get(self, address: str, **more: Any) -> httpx.Response:
        return self.request("GET", address, **more)

    def post(self, address: str, **more: Any) -> httpx.Response:
        return self.request("POST", address, **more)

    def request(self, method: str, address: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        sent = (headers or {}) | ({} if self.user is None else {"x-user": self.user})

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
                return await client.request(method, address, headers=sent, **more)

        return asyncio.run(ask())
