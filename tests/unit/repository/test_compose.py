"""docker-compose.yml keeps to the Compose specification and names only what exists.

No container engine is needed: the schema is the official one (shipped with check-jsonschema), and the rest is
read from the settings, from the installed Airflow and from the tree.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from etl.contract.correlations.sites import DeclaredSites, load_sites
from etl.settings import PREFIX, PROJECT, Settings
from etl.spark.session import configuration

IMAGE_ROOT = "/opt/frontstage/"

Compose = Mapping[str, Any]


@pytest.fixture(scope="module")
def compose() -> Compose:
    document: Compose = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
    return document


@pytest.fixture(scope="module")
def schema() -> Mapping[str, Any]:
    file = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    official: Mapping[str, Any] = json.loads(file.read_text())
    return official


@pytest.fixture(scope="module")
def env_example() -> dict[str, str]:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def environments(compose: Compose) -> Iterator[tuple[str, str, str]]:
    for service, body in compose["services"].items():
        for name, value in body.get("environment", {}).items():
            yield service, name, str(value)


def texts(node: Any) -> Iterator[str]:
    """Every string of the document, extension fields included."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def test_the_file_keeps_to_the_compose_specification(compose: Compose, schema: Mapping[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(compose)


def test_the_schema_refuses_a_service_with_an_unknown_key(compose: Compose, schema: Mapping[str, Any]) -> None:
    broken = {**compose, "services": {"postgres": {"image": "postgres:18", "restrat": "always"}}}
    with pytest.raises(jsonschema.ValidationError, match="restrat"):
        jsonschema.Draft202012Validator(schema).validate(broken)


def test_every_part_of_the_system_is_a_service(compose: Compose) -> None:
    parts = {"postgres", "api-server", "scheduler", "dag-processor", "triggerer", "runner", "spark-master"}
    sites = {"broker", "worker-eu", "worker-us", "worker-ap"}
    assert parts | {"spark-worker-1", "spark-worker-2", "kafka"} | sites <= set(compose["services"])
    optional = {name: body["profiles"] for name, body in compose["services"].items() if "profiles" in body}
    assert optional == {"kafka": ["kafka"], **{name: ["sites"] for name in sites}}


def test_every_lasting_service_restarts_and_has_a_health_check(compose: Compose) -> None:
    for name, body in compose["services"].items():
        if name != "prepare":
            assert body["restart"] == "unless-stopped", name
            assert body["healthcheck"]["test"][0] == "CMD", name


def test_services_wait_only_for_services_that_can_tell(compose: Compose) -> None:
    services = compose["services"]
    for name, body in services.items():
        for other, how in body.get("depends_on", {}).items():
            assert other in services, f"{name} waits for {other}"
            assert how["condition"] != "service_healthy" or "healthcheck" in services[other], other


def test_volumes_are_declared_and_all_used(compose: Compose) -> None:
    mounts = [mount for body in compose["services"].values() for mount in body.get("volumes", ())]
    named = {mount.split(":")[0] for mount in mounts if not mount.startswith(".")}
    assert named == set(compose["volumes"])


def test_the_files_it_names_exist(compose: Compose) -> None:
    for name, body in compose["services"].items():
        for mount in body.get("volumes", ()):
            if mount.startswith("./"):
                assert (PROJECT / mount.split(":")[0]).is_file(), f"{name}: {mount}"
        if "build" in body:
            assert (PROJECT / body["build"]["context"] / body["build"]["dockerfile"]).is_file()


def test_the_programs_it_starts_exist(compose: Compose) -> None:
    own = [body for body in compose["services"].values() if "build" in body]
    commands = [body["command"] for body in own] + [
        body["healthcheck"]["test"][1:] for body in own if "healthcheck" in body
    ]
    for program, *arguments in commands:
        assert shutil.which(program, path=str(Path(sys.prefix) / "bin")), f"{program} is not in the environment"
        if arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]), f"there is no module {arguments[1]}"
        elif program == "python":
            assert (PROJECT / arguments[0]).is_file(), f"there is no {arguments[0]}"


def test_the_image_gets_the_files_that_its_commands_need() -> None:
    ignore = (PROJECT / "docker" / "Dockerfile.dockerignore").read_text().split("\n")
    kept = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert "*" in ignore, "everything is left out that is not named"
    for pattern in kept:
        assert list(PROJECT.glob(pattern)), f"{pattern} matches nothing"
    assert {"bin/setup", "dags", "etl", "warehouse", "sql", "requirements", "docker/*.py"} <= set(kept)
    assert not any(".env" in line for line in kept)


def test_every_frontstage_variable_is_a_setting(compose: Compose) -> None:
    dockerfile = (PROJECT / "docker" / "Dockerfile").read_text()
    named = {name for _, name, _ in environments(compose)} | set(re.findall(rf"{PREFIX}\w+", dockerfile))
    ours = {name.removeprefix(PREFIX).lower() for name in named if name.startswith(PREFIX)}
    assert "postgres_dsn" in ours
    assert ours <= set(Settings.model_fields)


def test_every_airflow_variable_is_an_option_of_the_installed_airflow(compose: Compose) -> None:
    airflow = importlib.util.find_spec("airflow")
    assert airflow is not None
    assert airflow.origin is not None
    options = yaml.safe_load((Path(airflow.origin).parent / "config_templates" / "config.yml").read_text())
    celery = Path(airflow.origin).parent / "providers" / "celery" / "get_provider_info.py"
    options |= runpy.run_path(str(celery))["get_provider_info"]()["config"]
    named = {name for _, name, _ in environments(compose) if name.startswith("AIRFLOW__")}
    assert named
    for name in sorted(named):
        _, section, option = name.lower().split("__")
        assert option in options.get(section, {}).get("options", ()), f"{name} is not an option"


def test_every_variable_it_takes_is_explained_in_the_example(compose: Compose, env_example: dict[str, str]) -> None:
    taken = {name for text in texts(compose) for name in re.findall(r"\$\{(\w+)", text)}
    assert taken == set(env_example)


def test_a_variable_is_either_demanded_or_has_the_default_of_the_example(
    compose: Compose, env_example: dict[str, str]
) -> None:
    for text in texts(compose):
        for name, operator, rest in re.findall(r"\$\{(\w+)(:[?-])?([^}]*)\}", text):
            assert operator in (":?", ":-"), f"{name} may be empty"
            assert env_example[name] == ("" if operator == ":?" else rest), name


def test_no_secret_is_written_down(compose: Compose, env_example: dict[str, str]) -> None:
    secret = re.compile(r"PASSWORD$|SECRET|FERNET_KEY$|TOKEN")
    for service, name, value in environments(compose):
        if secret.search(name):
            assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), f"{service}: {name} is not taken from .env"
        for password in re.findall(r"://[^:/@]*:(.+)@", value):
            assert password.startswith("${"), f"{service}: {name} holds a password"
    assert {name for name in env_example if secret.search(name)} == {n for n, v in env_example.items() if not v}


def test_all_of_spark_wants_a_secret_that_only_its_owner_can_read(compose: Compose, tmp_path: Path) -> None:
    spark = ("runner", "scheduler", "spark-master", "spark-worker-1", "spark-worker-2", "prepare")
    folders = {compose["services"][name]["environment"]["SPARK_CONF_DIR"] for name in spark}
    assert len(folders) == 1, "they all read what `prepare` writes"
    spec = importlib.util.spec_from_file_location("prepare", PROJECT / "docker" / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    file = tmp_path / "conf" / "spark-defaults.conf"
    prepare.write_privately(file, prepare.SPARK_DEFAULTS.format(secret="known"))
    options = dict(line.split(" ") for line in file.read_text().splitlines())
    for option in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert options[option] == "true", option
    assert options["spark.authenticate.secret"] == "known"
    assert file.stat().st_mode & 0o077 == 0


def test_no_setting_of_ours_switches_sparks_secret_off(compose: Compose, tmp_path: Path) -> None:
    (tmp_path / "any.jar").touch()
    secured = ("spark.authenticate", "spark.network.crypto", "spark.io.enc")
    for master in ("local[2]", "spark://spark:7077"):
        ours = configuration(Settings(home=tmp_path, jars=tmp_path, spark_master=master))
        assert {ours[key] for key in ours if key.startswith(secured)} <= {"true"}
    spark = [body for body in compose["services"].values() if "SPARK_CONF_DIR" in body.get("environment", {})]
    assert not [text for body in spark for text in texts(body) if "spark.authenticate" in text or "crypto" in text]


def test_only_this_machine_reaches_the_ports(compose: Compose) -> None:
    published = [port for body in compose["services"].values() for port in body.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_paths_inside_the_image_agree_with_the_settings(compose: Compose) -> None:
    healthy = (PROJECT / "docker" / "healthy.py").read_text()
    inside = Settings(home=Path(IMAGE_ROOT))
    assert f'"{inside.runner_socket}"' in healthy
    mounts = {mount for body in compose["services"].values() for mount in body.get("volumes", ())}
    assert f"var:{inside.var}" in mounts


# ── sites ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def sites() -> DeclaredSites:
    return load_sites(PROJECT / "docker" / "sites.toml")


def test_every_site_has_a_root_that_all_see_and_a_queue_that_one_worker_serves(
    compose: Compose, sites: DeclaredSites
) -> None:
    assert sites.errors == ()
    assert set(sites.names) == set(load_sites(PROJECT / "examples" / "sites" / "sites.toml").names)
    for one in sites.found:
        for name, body in compose["services"].items():
            if "build" in body:
                assert f"site-{one.name}:{one.root}" in body["volumes"], f"{name} does not see {one.name}"
        serving = [
            name
            for name, body in compose["services"].items()
            if "--queues" in (command := body.get("command", ()))
            and one.queue in command[command.index("--queues") + 1].split(",")
        ]
        assert (serving, one.executor) == ([f"worker-{one.name}"], "CeleryExecutor")


def test_airflow_has_the_executors_that_sites_ask_for(compose: Compose, sites: DeclaredSites) -> None:
    configured = {value for _, name, value in environments(compose) if name == "AIRFLOW__CORE__EXECUTOR"}
    (executors,) = configured
    assert executors.split(",")[0] == "LocalExecutor", "what belongs to no site stays with the scheduler"
    assert {one.executor for one in sites.found} <= set(executors.split(","))


def test_the_image_has_the_roots_of_sites_for_its_own_account(sites: DeclaredSites) -> None:
    """A new volume takes the owner of the folder that it is mounted over."""
    dockerfile = (PROJECT / "docker" / "Dockerfile").read_text()
    (made,) = re.findall(r"install -d -o frontstage -g frontstage (.+)", dockerfile)
    assert {one.root.removeprefix(IMAGE_ROOT) for one in sites.found} | {"var", "var/logs"} <= set(made.split())


def test_a_worker_of_a_site_is_given_no_more_than_it_needs(compose: Compose) -> None:
    for name in ("worker-eu", "worker-us", "worker-ap"):
        body = compose["services"][name]
        mounted = {mount.split(":")[0] for mount in body["volumes"]}
        assert mounted == {"logs", "site-ap", "site-eu", "site-us"}, name
        secret = {one for one, value in body["environment"].items() if ":?" in value}
        assert secret == {
            "FRONTSTAGE_POSTGRES_DSN", "AIRFLOW__CELERY__BROKER_URL", "AIRFLOW__CELERY__RESULT_BACKEND"
        }, name  # fmt: skip


def test_only_the_scheduler_and_workers_of_sites_reach_the_broker(compose: Compose) -> None:
    assert compose["networks"]["queues"]["internal"] is True
    assert compose["services"]["broker"]["networks"] == ["queues"]
    reach = {name for name, body in compose["services"].items() if "queues" in body.get("networks", ())}
    assert reach == {"broker", "scheduler", "worker-eu", "worker-us", "worker-ap"}
    told = {service for service, _, value in environments(compose) if "BROKER_PASSWORD" in value}
    assert told == reach
    assert "ports" not in compose["services"]["broker"]


def test_the_broker_wants_a_password_that_is_on_no_command_line(compose: Compose) -> None:
    content = compose["configs"]["broker"]["content"]
    assert re.search(r"^requirepass \$\{BROKER_PASSWORD:\?", content, re.MULTILINE)
    assert [one["target"] for one in compose["services"]["broker"]["configs"]] == ["/etc/broker.conf"]
    for name, body in compose["services"].items():
        words = [*body.get("command", ()), *body.get("healthcheck", {}).get("test", ())]
        assert not [word for word in words if "PASSWORD" in word or "SECRET" in word], name


def test_nothing_makes_celery_accept_more_than_it_does_by_default(compose: Compose) -> None:
    """By default it is JSON: tests/dags/test_site_workers.py tries it."""
    named = {name for _, name, _ in environments(compose) if name.startswith("AIRFLOW__CELERY")}
    assert named == {
        "AIRFLOW__CELERY__BROKER_URL", "AIRFLOW__CELERY__RESULT_BACKEND", "AIRFLOW__CELERY__WORKER_CONCURRENCY",
        "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT",
    }  # fmt: skip
