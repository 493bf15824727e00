"""Finding control groups, on made-up hosts; what they do is tested by the attacks on the real one."""

from __future__ import annotations

from pathlib import Path

from agent.sandbox import SandboxLimits
from sandbox_runner.cgroups import CgroupParents, discover


def host(tmp_path: Path, mountinfo: list[str], cgroup: list[str]) -> Path:
    proc = tmp_path / "proc"
    proc.mkdir()
    lines = [
        f"30 24 0:26 {root} {tmp_path}{mount} rw - {kind} x {options}"
        for root, mount, kind, options in map(str.split, mountinfo)
    ]
    (proc / "mountinfo").write_text("\n".join(lines) + "\n")
    (proc / "cgroup").write_text("\n".join(cgroup) + "\n")
    return proc


def folder(path: Path, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def test_no_control_group(tmp_path: Path) -> None:
    assert discover("np", host(tmp_path, [], ["0::/"])) is None


def test_version_2_with_delegated_controllers(tmp_path: Path) -> None:
    proc = host(tmp_path, ["/ /cg cgroup2 rw"], ["0::/user/service"])
    own = folder(tmp_path / "cg/user/service", cgroup__controllers="memory pids", cgroup__subtree_control="memory pids")
    folder(own / "np", cgroup__subtree_control="memory pids")
    found = discover("np", proc)
    assert found == CgroupParents(2, {"memory": own / "np", "pids": own / "np"})


def test_version_1_where_version_2_has_no_controllers(tmp_path: Path) -> None:
    proc = host(
        tmp_path,
        [
            "/ /cg/memory cgroup rw,memory",
            "/ /cg/cpu cgroup rw,cpu,cpuacct",
            "/docker/x /cg/pids cgroup rw,pids",
            "/ /u cgroup2 rw",
        ],
        ["4:memory:/a/b", "2:pids:/docker/x/y", "1:cpu,cpuacct:/", "0::/"],
    )
    for parent in ("cg/memory/a/b", "cg/cpu", "cg/pids/y"):
        folder(tmp_path / parent / "np", cgroup__procs="")
    folder(tmp_path / "u", cgroup__controllers="hugetlb")
    found = discover("np", proc)
    assert found is not None
    assert found.version == 1
    assert {name: str(path.relative_to(tmp_path)) for name, path in found.parents.items()} == {
        "memory": "cg/memory/a/b/np",
        "cpu": "cg/cpu/np",
        "pids": "cg/pids/y/np",
    }


def test_limits_in_version_2(tmp_path: Path) -> None:
    names = ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cgroup.freeze", "memory.events", "cgroup.events")
    group = CgroupParents(2, dict.fromkeys(("memory", "pids", "cpu"), tmp_path)).create("one")
    for name in names:
        (tmp_path / "one" / name).write_text("")
    group.apply(SandboxLimits(memory_mb=64, processes=10, cpus=0.5))
    read = {name: (tmp_path / "one" / name).read_text() for name in names[:4]}
    assert read == {"memory.max": str(64 << 20), "memory.swap.max": "0", "pids.max": "12", "cpu.max": "50000 100000"}
    (tmp_path / "one/memory.events").write_text("oom 3\noom_kill 2\noom_group_kill 1\n")
    assert group.oom_kills() == 2
    assert group.freeze()
    (tmp_path / "one/cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert group.is_frozen()
