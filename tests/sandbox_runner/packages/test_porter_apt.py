"""Debian packages in a real sandbox: resolved and fetched through the proxy, unpacked, used, kept and removed."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from tests.sandbox_runner.conftest import backend
from tests.sandbox_runner.egress.inside import Inside, inside
from tests.sandbox_runner.egress.servers import Server, server
from tests.sandbox_runner.egress.test_programs import files
from tests.sandbox_runner.egress.yard import Yard, yard
from tests.sandbox_runner.packages.archive import Deb, build, repository

__all__ = ["backend"]

HOST = "debs.example"
pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb"))) or not Path("/var/lib/dpkg/status").exists(),
    reason="this machine is no Debian: apt and dpkg are not installed here",
)

BELL = Deb(
    "porterbell",
    {
        "usr/bin/porterbell": "#!/bin/sh\ncat $(dirname $0)/../share/porterbell/words\n",
        "usr/bin/porterbell.alt": "#!/usr/bin/porterlisp\nalternative\n",
        "usr/share/porterbell/link": "-> /usr/share/porterbell-data/words",
        "usr/share/man/man1/porterbell.1": ".TH PORTERBELL 1\n.SH NAME\nporterbell - rings\n",
        "usr/lib/pkgconfig/porterbell.pc": "prefix=/usr\nincludedir=${prefix}/include\nName: porterbell\n"
        "Description: rings\nVersion: 4.2\nCflags: -I${includedir}\n",
        "usr/lib/python3/dist-packages/porterbell.py": "SAID = 'rung'\n",
        "sbin/porterbell-admin": "#!/bin/sh\necho admin\n",
        "usr/share/perl5/PorterBell.pm": "package PorterBell; sub said { 'perl rings' } 1;\n",
    },
    depends="porterbell-data (>= 2), bash, porterlisp",
    postinst='if [ "$1" = configure ]; then\n  update-alternatives --install /usr/bin/ring \\\n'
    "    ring /usr/bin/porterbell 30\nfi",
)
DATA = Deb(
    "porterbell-data",
    {"usr/share/porterbell-data/words": "ding dong\n", "usr/share/porterbell/words": "-> ../porterbell-data/words"},
    version="2.0",
)
LISP = Deb("porterlisp", {"usr/bin/porterlisp": "#!/bin/sh\necho lisp reads $(tail -1 $1)\n"})


@contextlib.asynccontextmanager
async def archive(
    folder: Path, url: str, debs: list[Deb], *, allowed: bool = True
) -> AsyncIterator[tuple[Yard, Server]]:
    """A yard with an archive in it, at ``debs.example``."""
    async with server(files(repository(debs, folder / "debs"))) as outside:
        allow = [f"{HOST}:{outside.port}"] if allowed else []
        async with yard(folder, url, allow=allow, allow_private=[HOST]) as made:
            made.names[HOST] = [["127.0.0.1"]]
            await made.hear("hello")
            yield made, outside


async def name_sources(its: Inside, outside: Server) -> None:
    line = f"deb [trusted=yes] http://{HOST}:{outside.port}/debian ./"
    await its.run(f"mkdir -p ~/.config/porter-apt && echo '{line}' > ~/.config/porter-apt/sources.list")


USING = {
    "porterbell": "ding dong",
    "ring": "ding dong",
    "porterbell-admin": "admin",
    "porterbell.alt": "lisp reads alternative",
    "cat ~/.local/apt/usr/share/porterbell/link": "ding dong",
    "pkg-config --variable=includedir porterbell": "/home/porter/.local/apt/usr/include",
    "/usr/bin/python3 -c 'import porterbell; print(porterbell.SAID)'": "rung",
    "man -w porterbell": "/home/porter/.local/apt/usr/share/man/man1/porterbell.1",
    "perl -MPorterBell -e 'print PorterBell::said()'": "perl rings",
}


async def test_it_is_installed_with_what_it_needs_and_there_in_the_next_sandbox(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    async with archive(tmp_path, sqlite_url, [BELL, DATA, LISP]) as (made, outside):
        async with inside(made, backend, tmp_path / "volume") as its:
            await name_sources(its, outside)
            said = await its.run("porter-apt install porterbell")
            assert said.exit_code == 0, said.output
            for name in ("porterbell 1.0", "porterbell-data 2.0", "porterlisp 1.0"):
                assert f"unpacked {name}" in said.output
        # Everything of a sandbox but its volume is gone by now.
        async with inside(made, backend, tmp_path / "volume") as its:
            for command, answer in USING.items():
                program = command.split(" ")[0]
                if program in ("pkg-config", "man", "perl", "/usr/bin/python3") and not shutil.which(program):
                    continue
                assert await its.output(command) == answer, command
            listed = json.loads(await its.output("porter-apt list --json"))
            assert {each["package"]: each["asked"] for each in listed} == {
                "porterbell": True, "porterbell-data": False, "porterlisp": False,
            }  # fmt: skip
            assert "nothing to do" in await its.output("porter-apt install porterbell")
            assert {effect.host for effect in await made.settled()} == {HOST}
            said = await its.run("porter-apt remove porterbell")
            assert said.exit_code == 0, said.output
            assert "removed porterbell-data 2.0" in said.output
            assert await its.output("porter-apt list; hash -r; command -v porterbell ring") == ""
            left = await its.output("find ~/.local/apt -path '*/.porter' -prune -o ! -type d -print")
            assert left == ""


@pytest.mark.slow
async def test_a_newer_version_takes_the_place_of_the_old(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    old = Deb("porterdesk", {"usr/bin/porterdesk": "#!/bin/sh\necho old\n", "usr/share/porterdesk/old": "x"})
    new = Deb("porterdesk", {"usr/bin/porterdesk": "#!/bin/sh\necho new\n"}, version="2.0")
    async with (
        archive(tmp_path, sqlite_url, [old, new]) as (made, outside),
        inside(made, backend, tmp_path / "volume") as its,
    ):
        await name_sources(its, outside)
        assert "unpacked porterdesk 1.0" in await its.output("porter-apt install porterdesk=1.0")
        assert await its.output("porterdesk") == "old"
        assert "unpacked porterdesk 2.0" in await its.output("porter-apt install porterdesk")
        assert await its.output("porterdesk; ls ~/.local/apt/usr") == "new\nbin"


@pytest.mark.slow
async def test_a_file_of_ones_own(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    """No way out is needed for what is there already."""
    (tmp_path / "volume/workspace").mkdir(parents=True)
    (tmp_path / "volume/workspace/x.deb").write_bytes(build(LISP, tmp_path))
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        assert await its.output("porter-apt install ./x.deb") == "unpacked porterlisp 1.0"
        assert await its.output("echo hello > f; porterlisp f") == "lisp reads hello"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("debs", "words", "reason"),
    [
        ([], "install nosuchpackage-x", "Unable to locate package nosuchpackage-x"),
        ([Deb("porterbad", {}, depends="nosuchpackage-x")], "install porterbad", "nosuchpackage-x"),
        ([Deb("porterbad", {}, conflicts="bash")], "install porterbad", "bash"),
        (
            [Deb("bsdutils", {}, version="9:9"), Deb("porternew", {}, depends="bsdutils (>= 9:9)")],
            "install porternew",
            "it needs bsdutils 9:9; the read-only system has",
        ),
        ([], "install '-o=Dir::Etc=/tmp'", "is not the name of a package"),
        ([], "install x.deb", "there is no file /workspace/x.deb"),
        ([], "remove porterbad", "is not among what porter-apt installed"),
        ([], "install", "name the packages"),
    ],
)
async def test_what_cannot_be_done_is_said_and_changes_nothing(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend, debs: list[Deb], words: str, reason: str
) -> None:
    async with (
        archive(tmp_path, sqlite_url, debs) as (made, outside),
        inside(made, backend, tmp_path / "volume") as its,
    ):
        await name_sources(its, outside)
        said = await its.run(f"porter-apt {words}")
        assert said.exit_code == 1
        assert said.output.startswith("porter-apt: "), said.output
        assert reason in said.output
        assert await its.output("porter-apt list; ls ~/.local/apt") == ""


@pytest.mark.slow
async def test_a_host_that_is_not_allowed(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    async with (
        archive(tmp_path, sqlite_url, [BELL], allowed=False) as (made, outside),
        inside(made, backend, tmp_path / "volume") as its,
    ):
        await name_sources(its, outside)
        said = await its.run("porter-apt install porterbell")
        assert said.exit_code == 1
        assert f"{HOST}:{outside.port} is not on the list of hosts that this sandbox may reach" in said.output
        assert "/egress" in said.output
        assert await made.asked()
        assert outside.seen == []


@pytest.mark.slow
async def test_a_system_without_apt(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        said = await its.run("PATH=/opt/nightporter/bin porter-apt install jq")
        assert (said.exit_code, said.output.strip()) == (
            1, "porter-apt: the system in this sandbox has no apt-get: it is not a Debian or Ubuntu",
        )  # fmt: skip


@pytest.mark.slow
async def test_a_record_that_names_files_elsewhere(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    """What is removed is below its own folder, whatever the record or a link says."""
    (tmp_path / "volume/workspace").mkdir(parents=True)
    (tmp_path / "volume/workspace/x.deb").write_bytes(build(LISP, tmp_path))
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        await its.run("porter-apt install ./x.deb; echo kept > mine; ln -s /workspace ~/.local/apt/way")
        record = tmp_path / "volume/home/.local/apt/.porter/packages/porterlisp.json"
        body = json.loads(record.read_text())
        body["files"] += ["../../../../workspace/mine", "/workspace/mine", "way/mine", ".."]
        record.write_text(json.dumps(body))
        assert "removed porterlisp 1.0" in await its.output("porter-apt remove porterlisp")
        assert await its.output("cat mine") == "kept"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ldd") is None, reason="ldd is not installed here")
async def test_what_no_longer_finds_its_libraries_is_fetched_again(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    """As after another release of the system: a program that is linked to a library which is not there any more."""
    async with (
        archive(tmp_path, sqlite_url, [LISP, DATA]) as (made, outside),
        inside(made, backend, tmp_path / "volume") as its,
    ):
        await name_sources(its, outside)
        said = await its.run("porter-apt install porterlisp porterbell-data")
        assert said.exit_code == 0, said.output
        apt = [{"package": name, "version": "1", "asked": True} for name in ("porterlisp", "porterbell-data")]
        body = {"version": 1, "base": {"digest": "sha256:" + "0" * 64}, "apt": apt}
        await its.run(f"mkdir -p ~/.nightporter; echo '{json.dumps(body)}' > ~/.nightporter/environment.json")
        assert await its.output("porter-environment check") == "all that is installed runs"
        await its.run("sed s/libc.so.6/libx.so.6/ /usr/bin/true > ~/.local/apt/usr/bin/porterlisp")
        assert "broken: Debian packages: porterlisp" in await its.output("porter-environment check")
        said = await its.run("porter-environment rebuild")
        assert said.exit_code == 0, said.output
        assert await its.output("echo hello > f; porterlisp f; porter-environment check") == (
            "lisp reads hello\nall that is installed runs"
        )
        report = json.loads((tmp_path / "volume/home/.nightporter/environment_report.json").read_text())
        assert report["done"] == ["Debian packages: porterlisp (their libraries are not there)"]
