"""The stack's own secrets: generated once, stored in one file that only its owner can read; any other file is refused.

They reach services through the environment, never through a command line.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from etl.errors import SettingsError
from etl.private_paths import require_private
from etl.settings import Settings


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The stack's secrets."""

    airflow_password: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)
    fernet_key: str = field(default_factory=_fernet_key, repr=False)
    jwt_secret: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    api_secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    postgres_password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)


def credentials(settings: Settings) -> Credentials:
    """This stack's secrets, made on first use."""
    path = settings.var / "secrets.json"
    try:
        return _read(path)
    except FileNotFoundError:
        return _make(path)
    except (ValueError, TypeError):
        raise SettingsError(f"{path} is damaged; remove it and new secrets are made") from None


def _make(path: Path) -> Credentials:
    """Write a temporary file and hard-link it: of two writers the first wins, and no reader sees a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = Credentials()
    side = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    side.touch(mode=0o600, exist_ok=False)
    side.write_text(json.dumps(asdict(made)))
    try:
        os.link(side, path)
    except FileExistsError:
        return _read(path)
    finally:
        side.unlink()
    return made


def _read(path: Path) -> Credentials:
    require_private(path)
    return Credentials(**json.loads(path.read_text()))
