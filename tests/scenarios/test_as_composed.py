"""The services of ``docker-compose.yml`` with its commands, settings, secrets and health checks over real servers: only
the containers around them are missing."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import httpx
import pytest
import yaml

from nightporter.testing import House, wait_until
from tests.buckets import SETTINGS, ObjectStore
from tests.nightporter.deployments import ROOT, make_secrets
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


class Composed:
    """Its services as processes; each container's own files are a folder of ours."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder, self.endpoint = folder, endpoint
        self.living: list[House] = []

    def house(self, name: str) -> House:
        said = SERVICES[name]
        given = {}
        for variable, value in said["environment"].items():
            value = value.replace("/run/secrets/", f"{self.folder}/secrets/").replace("http://s3:8333", self.endpoint)
            given[variable.removeprefix("NIGHTPORTER_").lower()] = re.sub(r"\$\{\w+:-(.*)\}", r"\1", value)
        for secret in re.findall(r"/run/secrets/(\w+)", str(said["environment"])):
            assert secret in said["secrets"], f"{name} is shown {secret}"
        house = WarmHouse(self.folder / name, runner__host=said.get("hostname", name), **given)
        house.command, *house.arguments = said["command"][1:]
        return house

    def start(self, name: str) -> House:
        house = self.house(name).start()
        self.living.append(house)
        return house

    def is_healthy(self, name: str, house: House) -> bool:
        """Its health check, run where it would be run."""
        words = SERVICES[name]["healthcheck"]["test"][1:]
        if words[0] == "python":
            http = house.addresses["http"]
            words = [sys.executable, *(word.replace("127.0.0.1:8787", http) for word in words[1:])]
        else:
            words = [sys.executable, "-m", *words]
        return subprocess.run(words, env=house.environment, capture_output=True, check=False).returncode == 0


@pytest.fixture
def composed(tmp_path: Path, servers: dict[str, str], object_store: ObjectStore) -> Iterator[Composed]:
    secrets = tmp_path / "secrets"
    make_secrets(secrets)
    mine = servers | {f"s3_{key}": SETTINGS[f"storage__{key}"] for key in ("access_key", "secret_key")}
    for name, text in mine.items():
        (secrets / name).unlink()
        (secrets / name).write_text(text)
    (bucket,) = re.findall(r"-bucket=(\w+)", str(SERVICES["s3"]["command"]))
    urlopen(Request(f"{object_store.endpoint}/{bucket}", method="PUT"), timeout=10).close()
    found = Composed(tmp_path, object_store.endpoint)
    yield found
    for house in found.living:
        assert house.stop() == 0, house.log()[-4000:]


def test_they_serve_together_and_a_runner_that_is_stopped_loses_nothing(composed: Composed) -> None:
    migrating = composed.house("migrate")
    migrated = migrating.run(migrating.command, *migrating.arguments)
    assert migrated.returncode == 0, migrated.stderr
    gateway, first = composed.start("gateway"), composed.start("runner-1")
    gateway.say("$ X=kept; mkdir -p deep; cd deep; seq 1 20000 > long; cat long")
    running = gateway.post("$ until [ -e go ]; do sleep 0.1; done; echo ended")
    wait_until(lambda: gateway.status(running)["status"] == "running", "it runs on the first, which is alone")
    second = composed.start("runner-2")
    for name, house in (("gateway", gateway), ("runner-1", first), ("runner-2", second)):
        assert composed.is_healthy(name, house), name
    with gateway.client() as client:
        wait_until(lambda: client.get("/readyz").status_code == 200, "all are known to be there")
    codes: list[int] = []
    stopping = threading.Thread(target=lambda: codes.append(first.stop()))
    stopping.start()
    (live,) = composed.folder.glob("runner-1/cache/*/volumes/*/live/workspace/deep")
    (live / "go").touch()
    stopping.join(60)
    assert codes == [0]
    assert "ended" in gateway.answer(running)["replies"][0]["text"]
    assert "kept 20000\n" in gateway.say("$ echo $X $(wc -l < long)")
    assert not composed.is_healthy("runner-1", first)
    kinds = gateway.run("journal", "show", "owner", "--json").stdout
    assert '"resumed": true' not in kinds
    assert gateway.run("journal", "verify").returncode == 0
    assert not (composed.folder / "runner-1/volumes").exists(), "files are in the bucket, and a cache of it here"


def test_the_probes_of_the_manifests_are_answered(composed: Composed) -> None:
    manifests = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/base/gateway.yaml").read_text()))
    (container,) = manifests[0]["spec"]["template"]["spec"]["containers"]
    gateway = composed.start("gateway")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = container[probe]["httpGet"]["path"]
        # As the kubelet asks: without a token.
        assert httpx.get(f"http://{gateway.addresses['http']}{path}", timeout=5).status_code == 200
