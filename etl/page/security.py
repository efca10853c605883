"""Security headers of every response, and signed forms against CSRF.

A form is signed for one user, one action and the values that were shown for confirmation, and is valid for an hour:
another site can neither read nor create such a signature. The browser's headers about the origin of a request
(`Sec-Fetch-Site`, `Origin`) are checked as well.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request

from etl.errors import TerminalError
from etl.page.ports import User

VALID_S = 3600

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Only our own script files run, whatever text an event has; other sites may not frame this page."""

DOCS_HEADERS = HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'none'; form-action 'none'; frame-ancestors 'self'; base-uri 'none'"
    )
}
"""Pages of Great Expectations: only our script runs, without requests."""


class FormRefused(TerminalError):
    """A form that was not issued here, or for another user, or too long ago."""

    def __str__(self) -> str:
        return "this form has expired or was not made by this page; go back, look at it again and confirm"


def sign(secret: bytes, user: User, action: str, values: Mapping[str, Any], at: float | None = None) -> str:
    """The signature of a confirmation form."""
    made = int(time.time() if at is None else at)
    return f"{made}.{_digest(secret, user, action, values, made)}"


def check(secret: bytes, user: User, action: str, values: Mapping[str, Any], signature: str) -> None:
    """Raises `FormRefused` unless `sign` issued this for the same user, action and values within the hour."""
    made, _, digest = signature.partition(".")
    if not made.isdecimal() or len(made) > 12 or not 0 <= time.time() - int(made) <= VALID_S:
        raise FormRefused
    wanted = _digest(secret, user, action, values, int(made))
    if not hmac.compare_digest(digest.encode("utf-8", "replace"), wanted.encode()):
        raise FormRefused


def check_origin(request: Request) -> None:
    """Raises `FormRefused` when the browser says that another site sent the request.

    `Sec-Fetch-Site` cannot be forged by a page and refers to this address; `Origin` may be `null` for our own forms, so
    it is checked only for browsers without `Sec-Fetch-Site`.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        raise FormRefused
    if site is None and origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise FormRefused


def _digest(secret: bytes, user: User, action: str, values: Mapping[str, Any], made: int) -> str:
    text = json.dumps([made, user.id, action, sorted(values.items())], ensure_ascii=True)
    return hmac.new(hashlib.sha256(b"frontstage page" + secret).digest(), text.encode(), hashlib.sha256).hexdigest()
