"""Real packages from the registries that everybody uses, through egress: there after sleep, and mended when the system
under them changed. Skipped where the registries cannot be reached."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from nightporter.testing import House
from nightporter.testing.house import wait_until

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
FOREVER = 240.0


def registries() -> list[str]:
    """Hosts that the installers go to by themselves, in their own words."""
    pip: Any = importlib.import_module("pip._internal.models.index")
    hosts = [pip.PyPI.netloc, pip.PyPI.file_storage_domain]
    if npm := shutil.which("npm"):
        # Without a home: as in a sandbox, nobody has set another.
        environment = {"PATH": os.environ["PATH"], "HOME": os.devnull}
        said = subprocess.run(
            [npm, "config", "get", "registry"], env=environment, capture_output=True, text=True, check=True
        )
        hosts.append(urlsplit(said.stdout.strip()).hostname)
    return hosts


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    hosts = registries()
    for host in hosts:
        try:
            socket.create_connection((host, 443), 5).close()
        except OSError as error:
            pytest.skip(f"{host} cannot be reached: {error}")
    allowed = ",".join(hosts)
    return make_house(egress__allow=allowed, egress__allow_private=allowed, sandbox__idle_seconds="3")


def said(house: House, command: str) -> str:
    found = house.answer(house.post(f"$ {command}"), seconds=FOREVER)
    return "\n".join(reply["text"] for reply in found["replies"])


def home_of(house: House) -> Path:
    (volume,) = [path for path in (house.home / "volumes").iterdir() if (path / "live").exists()]
    return volume / "live/home"


def written(house: House) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home_of(house) / ".nightporter/environment.json").read_text())
    return found


def test_uv_and_what_it_installs_are_there_after_sleep(house: House) -> None:
    if "pip" not in said(house, "python3 -m pip --version"):
        pytest.skip("no Python inside has pip")
    assert "uv 0" in said(house, "python3 -m pip install --user -q uv; uv --version")
    said(house, "uv venv env && uv pip install -q --python env/bin/python ujson && uv tool install -q pycowsay")
    look = "env/bin/python -c 'import ujson; print(ujson.dumps([1]))'; pycowsay it is there; uv --version"
    before = said(house, look)
    assert "[1]" in before
    assert "it is there" in before
    house.sleep_sandboxes()
    assert said(house, look) == before
    found = written(house)
    assert any("ujson" in package for place in found["python"] for package in place["packages"])
    assert any(tool.startswith("pycowsay ") for tool in found["uv"])


def test_compiled_packages_that_another_system_broke_are_fetched_again_and_told(house: House) -> None:
    said(house, "python3 -m pip install --user -q ujson; npm install -g --silent bufferutil")
    look = (
        "python3 -c 'import ujson; print(\"python\", ujson.dumps([1]))'; "
        'NODE_PATH=$(npm root -g) node -p \'"node " + typeof require("bufferutil").mask\''
    )
    if "python [1]" not in (before := said(house, look)) or "node function" not in before:
        pytest.skip(f"they cannot be installed here: {before}")
    house.sleep_sandboxes()
    home = home_of(house)
    broken = [
        *home.glob(".local/lib/python3*/site-packages/ujson*.so"),
        *home.rglob("bufferutil/prebuilds/linux-x64/*.node"),
    ]
    assert len(broken) >= 2
    for path in broken:
        path.write_bytes(b"\x7fELF of another machine" + bytes(200))
    state = home / ".nightporter/environment.json"
    found = written(house)
    found["base"] |= {"digest": "sha256:" + "9" * 64, "glibc": "2.17"}
    state.write_text(json.dumps(found))
    told = [said(house, "true")]

    def rebuilt() -> bool:
        told.append(said(house, "sleep 2"))
        return bool(written(house).get("rebuilt"))

    wait_until(rebuilt, "rebuilt", FOREVER)
    told.append(said(house, "true"))
    assert written(house)["rebuilt"]["failed"] == [], written(house)["rebuilt"]
    everything = "\n".join(told)
    assert "the system under this sandbox changed since" in everything
    assert "glibc 2.17" in everything
    assert "rebuilt: pip packages: ujson" in everything, everything
    assert "bufferutil" in everything
    after = said(house, look)
    assert "python [1]" in after
    assert "node function" in after
