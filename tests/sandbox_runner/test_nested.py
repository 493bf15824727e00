"""Bubblewrap inside a container under the profile that the Compose file uses: just what is needed, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox_runner.container_layout import Layout
from tests.sandbox_runner.test_contract import docker

__all__ = ["docker"]

ROOT = Path(__file__).parents[2]
PROFILE = ROOT / "deploy/seccomp-bubblewrap.json"
NESTED = {"clone", "mount", "pivot_root", "sethostname", "umount2", "unshare"}
PROGRAM = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = ["/np", "/site"]
from sandbox_runner.bubblewrap import BubblewrapBackend
async def main():
    folder = Path("/tmp/run")
    folder.mkdir()
    backend = BubblewrapBackend(folder)
    print((await backend.probe()).works)
    await backend.close()
asyncio.run(main())
"""


def profile() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PROFILE.read_text())
    return found


def test_the_profile_refuses_what_reaches_into_the_kernel_or_into_others() -> None:
    allowed = {name for rule in profile()["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert profile()["defaultAction"] == "SCMP_ACT_ERRNO"
    assert allowed >= NESTED
    refused = {
        "bpf", "keyctl", "add_key", "request_key", "ptrace", "process_vm_readv", "process_vm_writev", "init_module",
        "finit_module", "delete_module", "kexec_load", "kexec_file_load", "open_by_handle_at", "userfaultfd",
        "perf_event_open", "io_uring_setup", "io_uring_enter", "setns", "quotactl", "reboot", "swapon", "swapoff",
        "iopl", "ioperm", "acct", "settimeofday", "clock_settime", "syslog", "fsopen", "fsmount", "move_mount",
        "open_tree", "mount_setattr", "vhangup", "chroot",
    }  # fmt: skip
    assert allowed & refused == set()


def test_the_compose_file_names_the_profile() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert f"seccomp={PROFILE.relative_to(ROOT)}" in text
    assert "seccomp=unconfined" not in text


@pytest.mark.slow
@pytest.mark.parametrize("without", ["", *sorted(NESTED)])
def test_bubblewrap_works_under_it_and_needs_each_of_its_calls(
    docker: tuple[str, ...], tmp_path: Path, without: str
) -> None:
    layout, given = Layout.of_this_machine(), profile()
    for rule in given["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name != without]
    given["syscalls"] = [rule for rule in given["syscalls"] if rule["names"]]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(given))
    image = layout.image_name()
    subprocess.run([*docker, "import", "-", image], input=layout.image(), check=True, capture_output=True)
    site = next(part for part in sys.path if part.endswith("site-packages"))
    mounts = [(part, part) for part in (*layout.system.folders, *layout.system.etc)]
    mounts += [(str(ROOT), "/np"), (site, "/site"), (sys.base_prefix, "/opt/nightporter/python")]
    interpreter = f"/opt/nightporter/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    done = subprocess.run(
        [
            *docker, "run", "--rm", "--network=none", "--user=10001:10001", "--cap-drop=ALL",
            f"--security-opt=seccomp={path}", "--security-opt=systempaths=unconfined",
            "--security-opt=no-new-privileges", "--tmpfs=/tmp:rw,exec,mode=1777",
            *(f"--volume={source}:{target}:ro" for source, target in mounts),
            "--env=PATH=/usr/bin:/bin", "--env=HOME=/tmp", image, interpreter, "-c", PROGRAM,
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.stdout.strip() == "True") is (without == ""), done.stdout + done.stderr
