"""``docker-compose.yml`` without Docker: its form, our settings and commands in it, and its walls."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from typer.exceptions import TyperException

from tests.nightporter.deployments import ROOT, Service, make_secrets, parse

OURS = ("migrate", "gateway", "runner-1", "runner-2")
STORES = ("redis", "postgres", "s3")
ROLES = {"migrate": ["db", "migrate"], "gateway": ["gateway"], "runner-1": ["runner"], "runner-2": ["runner"]}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def service(compose: dict[str, Any], name: str) -> Service:
    said = compose["services"][name]
    environment = {key: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for key, value in said["environment"].items()}
    secrets = {f"/run/secrets/{secret}": secret for secret in said["secrets"]}
    return Service(name, said["command"], environment, secrets)


def test_it_has_the_form_that_compose_takes(compose: dict[str, Any]) -> None:
    assert PyCompose.from_json(json.dumps(compose)).service_names() == [*OURS, *STORES]


@pytest.mark.parametrize("wrong", [{"helthcheck": {}}, {"restart": "sometimes"}, {"ports": ["x:y"]}])
def test_a_slip_in_it_would_be_seen(compose: dict[str, Any], wrong: dict[str, Any]) -> None:
    slipped = {**compose, "services": {**compose["services"], "s3": compose["services"]["s3"] | wrong}}
    with pytest.raises(ValueError):
        PyCompose.from_json(json.dumps(slipped))


def test_compose_itself_takes_it() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not here")
    subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, check=True)


def test_what_it_names_is_there(compose: dict[str, Any], tmp_path: Path) -> None:
    made = {f"deploy/secrets/{name}" for name in make_secrets(tmp_path)}
    assert {secret["file"] for secret in compose["secrets"].values()} == made
    for name, said in compose["services"].items():
        assert set(said.get("secrets", ())) <= set(compose["secrets"]), name
        assert set(said["networks"]) <= set(compose["networks"]), name
        assert {volume.partition(":")[0] for volume in said["volumes"]} <= set(compose["volumes"]), name
        assert set(said.get("depends_on", ())) <= set(compose["services"]), name
        for option in said["security_opt"]:
            if option.startswith("seccomp="):
                assert (ROOT / option.removeprefix("seccomp=")).is_file(), name


@pytest.mark.parametrize("name", OURS)
def test_our_settings_and_commands_are_real(compose: dict[str, Any], name: str, tmp_path: Path) -> None:
    made = make_secrets(tmp_path)
    found = service(compose, name)
    settings = found.settings(tmp_path)
    parse(found.command)
    assert found.command[1:] == ROLES[name]
    assert settings.database_url == made["database_url"]
    assert made["postgres_password"] in settings.database_url
    if name != "migrate":
        assert settings.volumes_url == "s3://nightporter/volumes"
        assert settings.redis_url == made["redis_url"]
        check = compose["services"][name]["healthcheck"]["test"]
        if check[:2] == ["CMD", "nightporter"]:
            parse(check[1:])
    assert (settings.http.token == made["token"]) is (name == "gateway")


def test_a_wrong_command_or_setting_would_be_seen(compose: dict[str, Any], tmp_path: Path) -> None:
    make_secrets(tmp_path)
    found = service(compose, "gateway")
    with pytest.raises(TyperException):
        parse(["nightporter", "runner", "chek"])
    with pytest.raises(Exception, match="NIGHTPORTER_REDDIS_URL"):
        Service("x", (), {**found.environment, "NIGHTPORTER_REDDIS_URL": "redis://x"}, found.secrets).settings(tmp_path)


def test_the_two_runners_are_hosts_of_their_own(compose: dict[str, Any]) -> None:
    first, second = (compose["services"][name] for name in ("runner-1", "runner-2"))
    assert first["hostname"] != second["hostname"]
    assert set(first["volumes"]).isdisjoint(second["volumes"])
    assert {key: value for key, value in first.items() if key not in ("hostname", "volumes")} == {
        key: value for key, value in second.items() if key not in ("hostname", "volumes")
    }


@pytest.mark.parametrize("name", ["runner-1", "runner-2"])
def test_a_runner_has_time_to_drain(compose: dict[str, Any], name: str, tmp_path: Path) -> None:
    make_secrets(tmp_path)
    drains = service(compose, name).settings(tmp_path).runner.drain_seconds
    grace = float(compose["services"][name]["stop_grace_period"].removesuffix("s"))
    assert 0 < drains <= grace - 10


def test_nothing_is_privileged_and_all_is_bounded(compose: dict[str, Any]) -> None:
    for name, said in compose["services"].items():
        assert not {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "userns_mode"} & set(said), name
        assert "no-new-privileges" in said["security_opt"], name
        if name == "migrate":
            continue
        assert {"memory", "pids"} <= set(said["deploy"]["resources"]["limits"]), name
        assert said["healthcheck"]["test"], name
        assert said["restart"] == "unless-stopped", name
    for name in OURS:
        said = compose["services"][name]
        assert (said["cap_drop"], said["read_only"]) == (["ALL"], True)
    for name in ("runner-1", "runner-2"):
        options = compose["services"][name]["security_opt"]
        assert {"seccomp=deploy/seccomp-bubblewrap.json", "systempaths=unconfined"} <= set(options)
        assert "seccomp=unconfined" not in options


def test_nothing_but_the_gateway_is_reached_and_that_from_this_host_only(compose: dict[str, Any]) -> None:
    assert compose["networks"]["inside"]["internal"] is True
    for name, said in compose["services"].items():
        ports = said.get("ports", [])
        assert bool(ports) is (name == "gateway")
        assert all(port.startswith("127.0.0.1:") for port in ports)
        assert ("outside" in said["networks"]) is (name in OURS)


def test_no_password_has_a_default(compose: dict[str, Any], tmp_path: Path) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert not re.search(r"(?i)(password|secret|token)\w*:-", text)
    for name, said in compose["services"].items():
        for variable in said.get("environment", {}):
            if re.search(r"PASSWORD|SECRET|TOKEN|ACCESS_KEY|DATABASE_URL|REDIS_URL", variable):
                assert variable.endswith("_FILE"), (name, variable)
    first, second = make_secrets(tmp_path / "a"), make_secrets(tmp_path / "b")
    for secret in ("token", "postgres_password", "s3_secret_key"):
        assert len(first[secret]) >= 48
        assert first[secret] != second[secret]


def test_secrets_are_made_once_and_are_this_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert make_secrets(folder) == make_secrets(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Each is shown by itself to a container, whose user is another.
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}


def test_secrets_do_not_get_into_the_repository_or_the_image() -> None:
    ignored = subprocess.run(["git", "check-ignore", "-q", "deploy/secrets/token"], cwd=ROOT, check=False)
    assert ignored.returncode == 0 or not (ROOT / ".git").exists()
    assert "!deploy" not in (ROOT / ".dockerignore").read_text()
