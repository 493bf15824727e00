"""What is asked of bubblewrap, for hosts of several kinds."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox_runner.bubblewrap_args import FIRST_DATA_FD, HostSystem, Sandbox, build
from sandbox_runner.host_python import HostPython

SYSTEM = HostSystem(links=(("usr/bin", "/bin"),), folders=("/usr",), etc=("/etc/ld.so.cache",))


def sandbox(python: HostPython = HostPython(Path("/usr/bin/python3.11"), None), **changes: object) -> Sandbox:  # noqa: B008
    values = {"workspace": "/v/workspace", "home": "/v/home", "guest": "/g", "etc": "/e", "python": python}
    values |= {"python_prefix": "/p", "system": SYSTEM, "tmp_bytes": 1 << 20, "processes": 64}
    return Sandbox(**{**values, **changes})  # type: ignore[arg-type]


def pairs(args: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    return [(args[i + 1], args[i + 2]) for i, arg in enumerate(args) if arg == option]


def test_the_volume_is_all_that_can_be_written() -> None:
    args = build(sandbox()).args
    assert pairs(args, "--bind") == [("/v/workspace", "/workspace"), ("/v/home", "/home/porter")]
    assert not {"--dev-bind", "--share-net", "--cap-add", "--overlay"} & set(args)
    assert args[-2:] == ("--remount-ro", "/")


def test_data_descriptors_are_numbered_in_order() -> None:
    built = build(sandbox())
    files = pairs(built.args, "--file")
    assert [int(fd) for fd, _ in files] == [FIRST_DATA_FD + i for i in range(len(built.data))]
    assert b"packages apt" in built.data[[path for _, path in files].index("/opt/nightporter/bin/porter-apt")]


def test_the_guest_is_told_its_limits() -> None:
    program, *rest = build(sandbox()).command
    assert program == "/opt/nightporter/bin/nightporter: guest"
    assert rest == ["-I", "-S", "-B", "/opt/nightporter/guest/__main__.py", "--fd", "3", "--processes", "64"]


def test_a_host_where_bin_is_a_folder(tmp_path: Path) -> None:
    for name in ("bin", "lib", "usr/lib64", "etc"):
        (tmp_path / name).mkdir(parents=True)
    os.symlink("usr/lib64", tmp_path / "lib64")
    for name in ("localtime", "os-release"):
        os.symlink(f"../usr/share/{name}", tmp_path / "etc" / name)
    (tmp_path / "etc/services").write_text("")
    system = HostSystem.read(tmp_path)
    assert system.folders == ("/usr", "/bin", "/lib")
    assert ("usr/lib64", "/lib64") in system.links
    assert ("../usr/share/localtime", "/etc/localtime") in system.links
    assert system.etc == ("/etc/services",)


def test_no_folder_of_keys_is_shown() -> None:
    system = HostSystem.read()
    shown = [path for path, _ in pairs(build(sandbox(system=system)).args, "--ro-bind")]
    assert not any(path.startswith("/etc") or path == "/" for path in shown)
    assert not any(path in ("/etc/ssl", "/etc/pki") or "private" in path for path in system.etc)


def test_a_python_of_a_home_folder_is_shown_in_part(tmp_path: Path) -> None:
    prefix = tmp_path / "python"
    for name in ("bin", "lib", "etc", "share"):
        (prefix / name).mkdir(parents=True)
    (prefix / "bin/python3.11").write_text("")
    os.symlink("lib", prefix / "lib64")
    python = HostPython.at(prefix / "bin/python3.11", prefix)
    args = build(sandbox(python)).args
    assert ("/p/lib", "/opt/nightporter/python/lib") in pairs(args, "--ro-bind")
    assert ("/p/bin/python3.11", "/opt/nightporter/python/bin/python3.11") in pairs(args, "--ro-bind")
    assert ("lib", "/opt/nightporter/python/lib64") in pairs(args, "--symlink")
    assert not any("share" in path or path.endswith("/etc") for path, _ in pairs(args, "--ro-bind"))
    assert ("/opt/nightporter/python/bin/python3.11", "/opt/nightporter/bin/python3") in pairs(args, "--symlink")


def test_a_python_below_usr_needs_nothing() -> None:
    for prefix in ("/usr", "/usr/local"):
        python = HostPython.at(Path(prefix) / "bin/python3.11", Path(prefix))
        assert python.prefix is None
        assert python.executable_inside == f"{prefix}/bin/python3.11"


def test_a_prefix_in_the_sandbox_s_own_folders_is_not_linked() -> None:
    prefix = Path("/home/porter/.pyenv/versions/3.11")
    python = HostPython(prefix / "bin/python3.11", prefix, ("bin/python3.11", "lib"))
    assert str(prefix) not in [path for _, path in pairs(build(sandbox(python)).args, "--symlink")]
