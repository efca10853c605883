"""The page as an ASGI application to mount: access control for every route, sections, and a 404 for the rest.

app = create_app(settings, dsn, access);   host.mount("/frontstage", app)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.exceptions import HTTPException

from etl.errors import FrontstageError, TransientError
from etl.page.ports import Access, Forbidden, NotLoggedIn
from etl.page.rendering import page
from etl.page.security import HEADERS, FormRefused
from etl.page.site import Guest, NotFound, Site
from etl.page.views import acting, correlations, events, files, now, pipelines, queries
from etl.page.views.files import TYPES, confined
from etl.settings import Settings

_STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page. One with a label is in the page's navigation; its address is relative to the page's root."""

    router: APIRouter
    label: str | None = None
    address: str = ""


SECTIONS: tuple[Section, ...] = (
    Section(now.router, "Now", ""),
    Section(correlations.router, "Correlations", "c/"),
    Section(queries.router, "Queries", "q/"),
    Section(pipelines.router),
    Section(events.router),
    Section(acting.router),
    Section(files.router, "Reports", "reports"),
)
"""The sections of the page, in the order of its navigation."""


def create_app(settings: Settings, dsn: Callable[[], str], access: Access) -> FastAPI:
    """The page over one Frontstage, in a host that knows its users."""
    app = FastAPI(title="Frontstage", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = Site(settings, dsn, access)
    app.state.sections = [one for one in SECTIONS if one.label]
    for section in SECTIONS:
        app.include_router(section.router)
    app.get("/static/{path:path}")(_static)
    app.api_route("/{path:path}", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])(_nothing_here)
    app.exception_handler(FrontstageError)(_sentence)
    app.exception_handler(RequestValidationError)(_wrong_value)
    app.exception_handler(HTTPException)(_http_error)
    return app


def _static(guest: Guest, path: str) -> FileResponse:  # noqa: ARG001 - asking for a guest is the check
    found = confined(_STATIC, path)
    return FileResponse(found, media_type=TYPES[found.suffix], headers={**HEADERS, "Cache-Control": "max-age=3600"})


def _nothing_here(guest: Guest, path: str) -> Response:  # noqa: ARG001
    raise NotFound(f"page {path!r}")


async def _sentence(request: Request, error: Exception) -> HTMLResponse:
    """One of our errors as a page: its message, with the HTTP status."""
    status = 503 if isinstance(error, TransientError) else 400
    for kind, code in ((NotLoggedIn, 401), (Forbidden, 403), (FormRefused, 403), (NotFound, 404)):
        if isinstance(error, kind):
            status = code
    return _error(request, status, str(error))


async def _wrong_value(request: Request, error: Exception) -> HTMLResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    said = "; ".join(
        f"{one['loc'][-1]}={str(one.get('input'))[:50]!r} is not allowed: {one['msg']}" for one in problems
    )
    return _error(request, 400, said or "this address is not understood")


async def _http_error(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, HTTPException), "this handles nothing else"
    return _error(request, error.status_code, str(error.detail))


def _error(request: Request, status: int, sentence: str) -> HTMLResponse:
    login = request.app.state.site.access.login_url(request) if status == 401 else None
    return page(request, "error.html.j2", status=status, code=status, sentence=sentence, login=login)
