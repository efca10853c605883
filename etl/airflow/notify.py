"""Airflow notifiers, by path and arguments from the settings; none by default."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

from etl import settings
from etl.errors import SettingsError


def digest_notifiers() -> list[Any]:
    """The notifiers for a new digest; the DAG processor shows a configuration error as an import error."""
    own = settings.load()
    return _notifiers("digest", own.digest_notifier, own.digest_notifier_arguments)


def alert_notifiers() -> list[Any]:
    """The notifiers for a pipeline that is not fresh."""
    own = settings.load()
    return _notifiers("alert", own.alert_notifier, own.alert_notifier_arguments)


async def notify(notifier: Any, context: dict[str, Any]) -> None:
    """Call one notifier from a coroutine; a synchronous one runs in a thread."""
    from airflow.sdk import BaseNotifier

    if type(notifier).async_notify is BaseNotifier.async_notify:  # the base class's, which only raises
        await asyncio.to_thread(notifier, context)
        return
    notifier.context = context
    await notifier


def _notifiers(whose: str, path: str | None, arguments: str) -> list[Any]:
    from airflow.sdk import BaseNotifier

    if path is None:
        return []
    module, _, name = path.rpartition(".")
    try:
        made = getattr(import_module(module), name)
        given = json.loads(arguments)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"the {whose}'s notifier {path!r} cannot be used: {error}") from None
    if not (isinstance(made, type) and issubclass(made, BaseNotifier)) or not isinstance(given, dict):
        raise SettingsError(f"{path!r} is not a notifier of Airflow's with arguments as a JSON object")
    return [made(**given)]
