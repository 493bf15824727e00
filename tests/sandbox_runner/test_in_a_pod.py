"""Bubblewrap in a container as the runner's manifest asks for it, made by the runtime that Kubernetes' nodes have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox_runner.container_layout import Layout
from tests.sandbox_runner.test_nested import PROFILE, PROGRAM, ROOT

pytestmark = pytest.mark.slow

FIRST_ID = 200_000
# What the kubelet masks where a pod does not say `procMount: Unmasked`.
MASKED = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/scsi"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


@pytest.fixture
def runc() -> str:
    found = shutil.which("runc") or shutil.which("runc", path="/usr/sbin:/sbin")
    if found is None or os.geteuid():
        pytest.skip("runc is not here, or this is not root")
    return found


def pod() -> tuple[dict[str, Any], dict[str, Any]]:
    """The runner's pod, and the security context of its container."""
    stateful = next(yaml.safe_load_all((ROOT / "deploy/kubernetes/base/runner.yaml").read_text()))
    spec: dict[str, Any] = stateful["spec"]["template"]["spec"]
    return spec, spec["containers"][0]["securityContext"]


def mount(source: str, target: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": source, "options": ["rbind", "ro"]}


def bundle(runc: str, folder: Path, proc_mount: str) -> None:
    """What a node makes of the manifest."""
    spec, walls = pod()
    layout = Layout.of_this_machine()
    (folder / "rootfs").mkdir(parents=True)
    subprocess.run(["tar", "-xC", folder / "rootfs"], input=layout.image(), check=True)
    subprocess.run([runc, "spec"], cwd=folder, check=True)
    config = json.loads((folder / "config.json").read_text())
    interpreter = f"/opt/nightporter/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    who = spec["securityContext"]
    config["process"] |= {
        "terminal": False, "cwd": "/", "args": [interpreter, "-c", PROGRAM], "env": ["PATH=/usr/bin:/bin", "HOME=/tmp"],
        "user": {"uid": who["runAsUser"], "gid": who["runAsGroup"]},
        "noNewPrivileges": not walls["allowPrivilegeEscalation"],
        "capabilities": {kind: [] for kind in config["process"]["capabilities"]},
    }  # fmt: skip
    assert walls["capabilities"] == {"drop": ["ALL"]}
    site = next(part for part in sys.path if part.endswith("site-packages"))
    mounts = [mount(part, part) for part in (*layout.system.folders, *layout.system.etc)]
    mounts += [mount(str(ROOT), "/np"), mount(site, "/site"), mount(sys.base_prefix, "/opt/nightporter/python")]
    tmp = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777", "nosuid", "nodev"]}
    config["mounts"] = [one for one in config["mounts"] if "cgroup" not in one["type"]] + [*mounts, tmp]
    config["root"] = {"path": "rootfs", "readonly": False}  # mount points are made in it
    linux = config["linux"]
    if not spec.get("hostUsers", True):
        linux["namespaces"] = [*linux["namespaces"], {"type": "user"}]
        users = [{"containerID": 0, "hostID": FIRST_ID, "size": 65536}]
        linux["uidMappings"] = linux["gidMappings"] = users
        for path in (folder / "rootfs", *(folder / "rootfs").rglob("*")):
            os.lchown(path, FIRST_ID, FIRST_ID)
    linux["maskedPaths"], linux["readonlyPaths"] = ([], []) if proc_mount == "Unmasked" else (MASKED, READ_ONLY)
    linux["seccomp"] = json.loads(PROFILE.read_text())
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("works", [True, False])
def test_bubblewrap_works_in_the_pod_and_needs_its_proc(runc: str, works: bool) -> None:
    proc_mount = pod()[1]["procMount"] if works else "Default"
    # Its users must be able to come here.
    folder = Path("/tmp") / f"np-pod-{os.getpid()}-{proc_mount}"
    try:
        bundle(runc, folder, proc_mount)
        words = [runc, "--root", f"{folder}/state", "run", f"np-pod-{os.getpid()}"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.stdout.strip() == str(works), done.stdout + done.stderr
