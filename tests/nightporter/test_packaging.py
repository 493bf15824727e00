"""What is shipped: pins without addresses, and images and services that fit together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightporter.settings import variables

ROOT = Path(__file__).parents[2]
PINS = ("requirements.txt", "requirements-dev.txt")


@pytest.mark.parametrize("name", PINS)
def test_every_pin_is_exact_and_hashed(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = [e for e in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE) if e and not e.startswith("#")]
    assert len(entries) > 30
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==[^\s=]+ \\\n", entry), entry[:60]
        assert "--hash=sha256:" in entry


@pytest.mark.parametrize("name", PINS)
def test_pins_name_no_registry_and_no_path(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "index" not in text
    assert "/" not in re.sub(r"#.*", "", text)


def test_both_files_pin_the_same() -> None:
    pins, all_pins = ({line for line in (ROOT / name).read_text().splitlines() if "==" in line} for name in PINS)
    assert pins <= all_pins


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def test_compose_has_the_four_services() -> None:
    services = compose()["services"]
    assert set(services) == {"gateway", "runner", "redis", "postgres"}
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped"
    assert services["gateway"]["command"] == ["nightporter", "gateway"]
    assert services["runner"]["command"] == ["nightporter", "runner"]
    options = set(services["runner"]["security_opt"])
    assert {"seccomp=deploy/seccomp-bubblewrap.json", "systempaths=unconfined"} <= options
    assert all(port.startswith("127.0.0.1:") for port in services["gateway"]["ports"])


def test_compose_uses_keys_that_exist() -> None:
    known = {
        *("build", "command", "depends_on", "environment", "healthcheck", "image", "ports", "restart"),
        *("security_opt", "stop_grace_period", "volumes"),
    }
    found = compose()
    assert set(found) <= {"name", "services", "volumes", "x-nightporter", "x-environment"}
    for service in found["services"].values():
        assert set(service) <= known
        named = [v.partition(":")[0] for v in service.get("volumes", ())]
        assert set(named) <= set(found["volumes"])
        assert set(service.get("depends_on", ())) <= set(found["services"])


def test_compose_and_image_set_only_what_can_be_set() -> None:
    settable = {*variables(), "NIGHTPORTER_HOME"}
    for service in compose()["services"].values():
        mine = {name for name in service.get("environment", ()) if name.startswith("NIGHTPORTER_")}
        assert mine <= settable
    assert set(re.findall(r"\bNIGHTPORTER_\w+", (ROOT / "Dockerfile").read_text())) <= settable


def test_compose_is_valid_to_docker() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not here")
    subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, check=True)


def test_the_image_is_not_root_and_holds_every_package() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert lines[0] == "FROM python:3.12-slim"
    assert lines.index("USER nightporter") < next(n for n, line in enumerate(lines) if line.startswith("CMD"))
    sent = (ROOT / ".dockerignore").read_text().split()
    for package in ("agent", "gateway", "identity", "nightporter", "router", "sandbox_runner", "workspace_store"):
        assert f"!{package}" in sent


def test_make_takes_a_python_that_really_runs(tmp_path: Path) -> None:
    """A version manager's stand-in may be first on the path and fail."""
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    broken.chmod(0o755)
    shown = subprocess.run(
        [
            "make",
            "--no-print-directory",
            "--eval",
            "shown: ; @echo $(PYTHON)",
            "shown",
            "CANDIDATES=python3.12 python3",
        ],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() in ("python3", "")


def test_make_says_so_when_there_is_no_python(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["make", "install", "CANDIDATES=no-such-python", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},  # without MAKEFLAGS: this test may itself run below make
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("No Python >= 3.11 with venv was found (tried: no-such-python).")
