"""The exact command lines and bundles that engines get; what they do with them is in ``test_contract``."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from agent.sandbox import SandboxLimits
from sandbox_runner import bubblewrap_args, choosing, gvisor
from sandbox_runner.backend import Launch
from sandbox_runner.bubblewrap_args import HostSystem
from sandbox_runner.container_layout import Layout
from sandbox_runner.containers import ContainerBackend, ContainerEngine
from sandbox_runner.host_python import HostPython
from sandbox_runner.settings import SandboxSettings
from sandbox_runner.uids import HostUids

LAYOUT = Layout(
    HostSystem((("usr/bin", "/bin"),), ("/usr",), ("/etc/alternatives",)), HostPython(Path("/usr/bin/python3"), None)
)
LAUNCH = Launch(
    "abc", Path("/v/workspace"), Path("/v/home"), Path("/np/guest"),
    SandboxLimits(memory_mb=256, processes=64, cpus=0.5, disk_mb=100, environment={"A": "b"}),
    egress_socket=Path("/run/e.sock"),
)  # fmt: skip


def command(engine: ContainerEngine) -> list[str]:
    return engine.run(LAYOUT, LAUNCH, container="c", label="l", uid=7001)


@pytest.mark.parametrize("runtime", ["", "runsc", "kata"])
def test_dockers_command_line(runtime: str) -> None:
    given = command(ContainerEngine("docker", ("docker", "--host", "unix:///s"), runtime))
    assert given[:4] == ["docker", "--host", "unix:///s", "run"]
    assert [given[given.index("--runtime") + 1]] == [runtime] if runtime else "--runtime" not in given
    for option, value in (
        ("--network", "none"), ("--cap-drop", "ALL"), ("--security-opt", "no-new-privileges"), ("--user", "7001:7001"),
        ("--pull", "never"), ("--ipc", "private"), ("--log-driver", "none"), ("--label", "nightporter.run=l"),
    ):  # fmt: skip
        assert given[given.index(option) + 1] == value
    assert {
        "--rm", "--read-only", "--interactive", "--memory=268435456", "--memory-swap=268435456", "--pids-limit=64",
        "--cpus=0.5", "--ulimit=fsize=104857600:104857600", "--ulimit=core=0:0", "--env=A=b", "--env=HOME=/home/porter",
    } <= set(given)  # fmt: skip
    mounts = [item.removeprefix("--mount=type=bind,") for item in given if item.startswith("--mount")]
    assert mounts == [
        "source=/usr,target=/usr,bind-propagation=rprivate,readonly",
        "source=/etc/alternatives,target=/etc/alternatives,bind-propagation=rprivate,readonly",
        "source=/np/guest,target=/opt/nightporter/guest,bind-propagation=rprivate,readonly",
        "source=/v/workspace,target=/workspace,bind-propagation=rprivate",
        "source=/v/home,target=/home/porter,bind-propagation=rprivate",
        "source=/run/e.sock,target=/run/nightporter/egress.sock,bind-propagation=rprivate,readonly",
    ]
    image = given.index(LAYOUT.image_name())
    assert given[image + 1 :] == [
        "-I", "-S", "-B", "/opt/nightporter/guest", "--fd", "0", "--out", "1", "--processes", "64",
    ]  # fmt: skip
    assert not [item for item in given if "privileged" in item or "unconfined" in item or "docker.sock" in item]


def test_podmans_command_line_passes_no_proxy_on() -> None:
    given = command(ContainerEngine("podman", ("podman",)))
    assert "--http-proxy=false" in given
    assert ("--userns" in given) is (os.geteuid() != 0)


@pytest.mark.parametrize("path", ["/v/a,b", "/v/a:b", '/v/a"b', "/v/a\nb"])
def test_a_path_that_would_be_read_as_an_option_is_refused(path: str) -> None:
    launch = Launch("abc", Path(path), Path("/v/home"), Path("/np/guest"))
    with pytest.raises(ValueError, match="move it"):
        ContainerEngine("docker", ("docker",)).run(LAYOUT, launch, container="c", label="l", uid=1)


def test_the_image_holds_no_program_but_our_own_and_is_the_same_each_time() -> None:
    assert LAYOUT.image() == LAYOUT.image()
    with tarfile.open(fileobj=io.BytesIO(LAYOUT.image())) as tar:
        members = {member.name: member for member in tar.getmembers()}
    assert members["bin"].linkname == "usr/bin"
    assert members["workspace"].isdir()
    programs = {f"/{name}" for name, member in members.items() if member.isfile() and member.mode & 0o111}
    assert programs == set(bubblewrap_args.PROGRAMS)


def test_gvisors_bundle() -> None:
    bundle = gvisor.bundle(LAYOUT, LAUNCH, Path("/root-of-it"), 7001)
    process = bundle["process"]
    assert process["user"] == {"uid": 7001, "gid": 7001}
    assert process["noNewPrivileges"] is True
    assert not any(process["capabilities"].values())
    assert bundle["root"] == {"path": "/root-of-it", "readonly": True}
    assert {space["type"] for space in bundle["linux"]["namespaces"]} == {"pid", "network", "ipc", "uts", "mount"}
    assert bundle["linux"]["resources"]["memory"]["limit"] == 256 << 20
    writable = [
        mount["destination"] for mount in bundle["mounts"] if mount["type"] == "bind" and "rw" in mount["options"]
    ]
    assert writable == ["/workspace", "/home/porter"]
    assert all({"nosuid", "nodev"} <= set(m["options"]) for m in bundle["mounts"] if m["type"] == "bind")
    rootless = ["--rootless"] if os.geteuid() else []
    assert [*gvisor.engine(Path("/run"), "").command] == [
        "runsc", "--root=/run/runsc", "--network=none", "--platform=systrap", "--host-uds=open", *rootless,
    ]  # fmt: skip


def test_auto_takes_the_strongest_first_and_only_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(**settings: str) -> list[str]:
        return [found.name for found in choosing.candidates(tmp_path, tmp_path, SandboxSettings(**settings))]

    monkeypatch.setattr(choosing.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert names() == ["gvisor", "bubblewrap", "podman", "docker"]
    monkeypatch.setattr(choosing.shutil, "which", lambda name: None)
    assert names() == ["bubblewrap"]
    assert names(backend="docker") == ["docker"]


@pytest.mark.parametrize("name", ["docker", "podman", "gvisor"])
async def test_what_is_not_there_fails_closed_with_a_remedy(tmp_path: Path, name: str) -> None:
    engine = ContainerEngine(name, (f"no-such-{name}",))
    made = gvisor.GvisorBackend if name == "gvisor" else ContainerBackend
    backend = made(engine, tmp_path / "run", HostUids.of(tmp_path))
    probe = await backend.probe()
    assert not probe.works
    assert "not installed" in probe.reason
    assert "sandbox.backend" in probe.remedy
    assert backend.reap() == []


async def test_an_engine_that_does_not_answer_fails_closed(tmp_path: Path) -> None:
    broken = tmp_path / "docker"
    broken.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    broken.chmod(0o755)
    probe = await ContainerBackend(
        ContainerEngine("docker", (str(broken),)), tmp_path / "run", HostUids.of(tmp_path)
    ).probe()
    assert not probe.works
    assert "Cannot connect to the Docker daemon" in probe.reason
