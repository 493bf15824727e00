"""The folder that is ``/etc`` inside: public parts of the host's, our files over them, made anew when those change."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap_args import HostSystem
from sandbox_runner.etc_folder import EtcFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    etc = tmp_path / "root/etc"
    for name in ("alternatives", "ssl/certs", "ssl/private"):
        (etc / name).mkdir(parents=True)
    os.symlink("/usr/bin/vim.tiny", etc / "alternatives/editor")
    os.symlink("/usr/share/ca-certificates/gone.crt", etc / "ssl/certs/gone.pem")
    (etc / "ssl/certs/ca-certificates.crt").write_text("certificates")
    (etc / "ssl/private/key.pem").write_text("a key")
    (etc / "services").write_text("smtp 25/tcp")
    (etc / "passwd").write_text("somebody:x:1:1::/:/bin/sh")
    os.symlink("../usr/share/zoneinfo/UTC", etc / "localtime")
    return tmp_path / "root"


def test_what_is_in_it(root: Path, tmp_path: Path) -> None:
    system = replace(
        HostSystem.read(root), apt=(("/etc/apt/sources.list", "deb http://archive.example stable main\n"),)
    )
    before = os.umask(0o077)
    try:
        etc = EtcFolder(tmp_path / "made", system, root).make()
    finally:
        os.umask(before)
    assert (etc / "services").read_text() == "smtp 25/tcp"
    assert (etc / "passwd").read_text().startswith("root:x:0:0:")
    assert (etc / "apt/sources.list").read_text().startswith("deb ")
    assert os.readlink(etc / "alternatives/editor") == "/usr/bin/vim.tiny"
    assert os.readlink(etc / "ssl/certs/gone.pem") == "/usr/share/ca-certificates/gone.crt"
    assert os.readlink(etc / "localtime") == "../usr/share/zoneinfo/UTC"
    assert not (etc / "ssl/private").exists()
    for path in [etc, *etc.rglob("*")]:
        if not path.is_symlink():
            assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def test_it_is_made_once_and_again_when_the_host_s_changes(root: Path, tmp_path: Path) -> None:
    folder = EtcFolder(tmp_path / "made", HostSystem.read(root), root)
    assert folder.path() is None
    first = folder.make()
    assert folder.path() == first == folder.make()
    for change in ("services", "ssl/certs/new.pem"):
        (root / "etc" / change).write_text("another")
        assert folder.path() is None
        assert (folder.make() / change).read_text() == "another"
    # A sandbox may see it still.
    assert (first / "services").read_text() == "smtp 25/tcp"


def test_what_an_earlier_manager_made_is_gone(root: Path, tmp_path: Path) -> None:
    first = EtcFolder(tmp_path / "made", HostSystem.read(root), root).make()
    (root / "etc/services").write_text("another")
    assert EtcFolder(tmp_path / "made", HostSystem.read(root), root).make() != first
    assert not first.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_this_user_may_not_read_is_left_out(root: Path, tmp_path: Path) -> None:
    (root / "etc/ssl/certs/secret.pem").write_text("x")
    (root / "etc/ssl/certs/secret.pem").chmod(0)
    etc = EtcFolder(tmp_path / "made", HostSystem.read(root), root).make()
    assert (etc / "ssl/certs/ca-certificates.crt").exists()
    assert not (etc / "ssl/certs/secret.pem").exists() or (etc / "ssl/certs/secret.pem").read_text() == ""
