"""Who is told: notifiers of Airflow's, by their path and arguments from the settings. None unless somebody sets one."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from etl import settings
from etl.errors import SettingsError


def digest_notifiers() -> list[Any]:
    """The notifiers that are told of a new digest; the DAG processor shows a mistake as an import error."""
    own = settings.load()
    return [] if own.digest_notifier is None else [_notifier(own.digest_notifier, own.digest_notifier_arguments)]


def _notifier(path: str, arguments: str) -> Any:
    from airflow.sdk import BaseNotifier

    module, _, name = path.rpartition(".")
    try:
        made = getattr(import_module(module), name)
        given = json.loads(arguments)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(f"the digest's notifier {path!r} cannot be used: {error}") from None
    if not (isinstance(made, type) and issubclass(made, BaseNotifier)) or not isinstance(given, dict):
        raise SettingsError(f"{path!r} is not a notifier of Airflow's with arguments as a JSON object")
    return made(**given)
