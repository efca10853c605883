"""Once before the services start: the schemas of both databases, the login of Airflow's `admin`, Spark's secret.

Safe to repeat: migrations that ran are skipped. Login and secret are written anew each time, so to change them, edit
`.env` and run `docker compose up`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from etl.adapters.postgres import migrate
from etl.contract.load import load_all
from etl.errors import FrontstageError, SettingsError
from etl.settings import load

SPARK_DEFAULTS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.io.encryption.enabled true
"""
"""Master, workers and driver know one secret; what they send each other and spill is encrypted."""


def main() -> None:
    write_privately(
        Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf"),
        SPARK_DEFAULTS.format(secret=os.environ["SPARK_SECRET"]),
    )
    settings = load()
    if settings.postgres_dsn is None:
        raise SettingsError("postgres_dsn is not set; docker-compose.yml sets FRONTSTAGE_POSTGRES_DSN")
    subprocess.run(["airflow", "db", "migrate"], check=True)
    migrate(settings.postgres_dsn.get_secret_value())
    for pipeline in load_all(settings.pipelines, settings.var).pipelines:
        pipeline.stream.source.landing.mkdir(parents=True, exist_ok=True)
    login = json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]})
    write_privately(Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]), login + "\n")


def write_privately(file: Path, text: str) -> None:
    """Readable by its owner only, and whole whenever somebody looks."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(file)


if __name__ == "__main__":
    try:
        main()
    except FrontstageError as error:
        raise SystemExit(f"prepare: {error}") from None
