"""What is installed is written down, and comes back: in a new sandbox, and on another system."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.sandbox import CommandResult, WakeReport
from nightporter.cli import workspace_texts
from sandbox_runner import environment_file
from tests.sandbox_runner.packages.archive import Deb, build, wheel
from tests.turns.stage import Stage

HOLDER = "a turn"


class OtherBase:
    """The system of another host."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = dict(facts)

    def describe(self) -> dict[str, Any]:
        return self.facts


class Workspace:
    def __init__(self, stage: Stage) -> None:
        assert stage.manager is not None
        self.stage, self.manager = stage, stage.manager
        self._count = 0
        volumes = self.manager.seating.volumes
        with volumes.open(stage.owner) as volume:
            self.home, self.files = Path(volume.home), Path(volume.workspace)

    @classmethod
    async def of(cls, stage: Stage) -> Workspace:
        await stage.hear("x")
        assert stage.manager is not None
        await stage.manager.wake(stage.owner, HOLDER)
        return cls(stage)

    async def run(self, command: str) -> CommandResult:
        self._count += 1
        return await self.manager.run(
            self.stage.owner, call_id=f"call-{id(self)}-{self._count}", command=command, terminal="main", timeout=120,
            background=False, on_output=lambda _: None,
        )  # fmt: skip

    async def output(self, command: str) -> str:
        return (await self.run(command)).output.strip()

    async def sleep(self) -> None:
        await self.manager.give_back(self.stage.owner, HOLDER)
        assert await self.manager.sleep(self.stage.owner)

    async def wake(self) -> WakeReport:
        report, _ = await self.manager.wake(self.stage.owner, HOLDER)
        assert report.fresh
        return report

    @property
    def path(self) -> Path:
        return self.home / ".nightporter/environment.json"

    def written(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        with self.manager.seating.volumes.open(self.stage.owner) as volume:
            assert environment_file.read(volume) is not None, "the host reads what the guest writes"
        return found

    async def until(self, *said: str) -> dict[str, Any]:
        """Wait until environment.json says all of it."""
        async with asyncio.timeout(60):
            while True:
                text = self.path.read_text() if self.path.exists() else ""
                if all(each in text for each in said):
                    return self.written()
                await asyncio.sleep(0.05)

    def put(self, name: str, data: bytes) -> None:
        path, owner = self.files / name, self.files.stat()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        for each in (path.parent, path):
            os.chown(each, owner.st_uid, owner.st_gid)

    def on_another_system(self, **facts: Any) -> None:
        base = dict(self.manager.base.describe())
        self.manager.base = OtherBase({**base, "digest": "sha256:" + "9" * 64, **facts})  # type: ignore[assignment]


PIP = "python3 -m pip install -q --no-index --find-links /workspace/wheels"


async def with_pip(its: Workspace) -> str:
    """A Python inside that has pip."""
    for python in ("python3", "/opt/nightporter/bin/python3"):
        if "No module" not in await its.output(f"{python} -m pip --version"):
            return python
    pytest.skip("no Python inside has pip")


@pytest.mark.slow
async def test_what_is_installed_is_written_down_and_there_after_sleep(stage: Stage, tmp_path: Path) -> None:
    its = await Workspace.of(stage)
    python = await with_pip(its)
    its.put("wheels/porterdemo-1.5-py3-none-any.whl", wheel("porterdemo", "1.5", "from pip", script=True))
    its.put("wheels/porterenv-2.5-py3-none-any.whl", wheel("porterenv", "2.5", "from a venv", script=True))
    said = await its.run(f"{PIP.replace('python3', python, 1)} porterdemo 2>&1")
    assert said.exit_code == 0, said.output
    said = await its.run(
        f"{python} -m venv --without-pip env && {python} -m pip --python env/bin/python install -q --no-index "
        "--find-links wheels porterenv 2>&1"
    )
    assert said.exit_code == 0, said.output
    using = {"porterdemo": "from pip", "env/bin/porterenv": "from a venv"}
    has_npm = "/" in await its.output("command -v npm && command -v node")
    if has_npm:
        package = {"name": "porternode", "version": "3.5.0", "bin": {"porternode": "run.js"}}
        its.put("node/package.json", json.dumps(package).encode())
        its.put("node/run.js", b"#!/usr/bin/env node\nconsole.log('from npm')\n")
        packed = "cd node && npm pack -s && npm install -g --no-audit --no-fund ./porternode-3.5.0.tgz 2>&1 && cd .."
        said = await its.run(packed)
        assert said.exit_code == 0, said.output
        using["porternode"] = "from npm"
    has_apt = "/" in await its.output("command -v apt-get && command -v dpkg-deb") and shutil.which("dpkg-deb")
    if has_apt:
        its.put("x.deb", build(Deb("porterdeb", {"usr/bin/porterdeb": "#!/bin/sh\necho from apt\n"}), tmp_path))
        said = await its.run("porter-apt install ./x.deb")
        assert said.exit_code == 0, said.output
        using["porterdeb"] = "from apt"
    await its.sleep()
    before = its.written()
    await its.wake()
    for command, answer in using.items():
        assert await its.output(command) == answer
    places = {place["kind"]: place for place in before["python"]}
    assert places["user"]["packages"] == ["porterdemo==1.5"] or places["user"]["packages"][0].startswith("porterdemo @")
    assert places["venv"]["where"] == "/workspace/env"
    assert before["npm"] == (["porternode@3.5.0"] if has_npm else [])
    assert [each["package"] for each in before["apt"]] == (["porterdeb"] if has_apt else [])
    assert before["base"]["digest"].startswith("sha256:")
    assert before["base"]["python"]


@pytest.mark.slow
async def test_it_is_written_soon_without_sleep_and_only_when_something_changed(stage: Stage) -> None:
    its = await Workspace.of(stage)
    site = "~/.local/lib/python3.11/site-packages"
    info = f"{site}/hand_made-1.0.dist-info"
    await its.run(f"mkdir -p {info} && printf 'Name: hand-made\\nVersion: 1.0\\n' > {info}/METADATA")
    await its.until("hand-made==1.0")
    first = its.path.stat()
    await its.run("sleep 0.3; echo a plain command")
    await its.run(f"mkdir -p {site}/other-2.0.dist-info && cp {info}/METADATA {site}/other-2.0.dist-info/")
    await its.run(f"sed -i s/hand-made/other/ {site}/other-2.0.dist-info/METADATA; sleep 0.2")
    await its.until("other==1.0")
    assert its.path.stat().st_ino != first.st_ino
    second = its.path.stat()
    await its.run("sleep 0.3; echo a plain command")
    await its.sleep()
    assert its.path.stat().st_ino == second.st_ino


async def test_nothing_is_written_for_who_installs_nothing(stage: Stage) -> None:
    its = await Workspace.of(stage)
    await its.run("echo hello; sleep 0.3; mkdir x")
    await its.sleep()
    assert not its.path.exists()


@pytest.mark.slow
async def test_secrets_in_where_a_package_came_from(stage: Stage) -> None:
    its = await Workspace.of(stage)
    info = "~/.local/lib/python3.11/site-packages/mine-1.0.dist-info"
    url = '{"url": "https://me:hunter2secret@packages.example/mine.whl", "archive_info": {}}'
    await its.run(
        f"mkdir -p {info} && printf 'Name: mine\\nVersion: 1.0\\n' > {info}/METADATA && "
        f"echo '{url}' > {info}/direct_url.json"
    )
    written = await its.until("mine==1.0")
    assert "hunter2secret" not in its.path.read_text()
    assert written["not_kept"] == ["where mine came from"]


@pytest.mark.slow
async def test_tools_of_uv_and_cargo(stage: Stage) -> None:
    """Installed by the programs themselves where they are inside, from what is made here; never from a network."""
    its = await Workspace.of(stage)
    found = []
    if "/" in await its.output("command -v cargo"):
        its.put("crate/Cargo.toml", b'[package]\nname = "portercrate"\nversion = "0.3.0"\nedition = "2021"\n')
        its.put("crate/main.rs", b'fn main() { println!("from cargo"); }\n')
        said = await its.run("cd crate && mkdir src && mv main.rs src/ && cargo install --offline --path . 2>&1; cd ..")
        assert await its.output("portercrate") == "from cargo", said.output
        found.append("portercrate 0.3.0")
    if "/" in await its.output("command -v uv"):
        its.put("wheels/porteruv-4.5-py3-none-any.whl", wheel("porteruv", "4.5", "from uv", script=True))
        said = await its.run("uv tool install --offline --no-index --find-links wheels porteruv 2>&1")
        assert await its.output("porteruv") == "from uv", said.output
        found.append("porteruv 4.5")
    if not found:
        pytest.skip("neither cargo nor uv is in the system of this machine's sandboxes")
    await its.sleep()
    written = its.written()
    assert [*written["cargo"], *written["uv"]] == found
    await its.wake()
    for line in found:
        assert (await its.output(line.split(" ")[0])).startswith("from ")


async def test_what_uv_and_cargo_leave_is_read_and_its_programs_are_found(stage: Stage) -> None:
    its = await Workspace.of(stage)
    crates = {"installs": {"portercrate 0.3.0 (path+file:///workspace/crate)": {"bins": ["portercrate"]}}}
    its.put("crates2.json", json.dumps(crates).encode())
    tool = "~/.local/share/uv/tools/porteruv"
    info = f"{tool}/lib/python3.11/site-packages/porteruv-4.5.dist-info"
    await its.run(
        "mkdir -p ~/.cargo/bin && mv crates2.json ~/.cargo/.crates2.json && "
        "printf '#!/bin/sh\\necho from cargo\\n' > ~/.cargo/bin/portercrate && chmod +x ~/.cargo/bin/portercrate && "
        f"mkdir -p {info} && echo 'version_info = 3.11.7' > {tool}/pyvenv.cfg && "
        f"printf 'Name: porteruv\\nVersion: 4.5\\n' > {info}/METADATA"
    )
    written = await its.until("portercrate", "porteruv")
    assert (written["cargo"], written["uv"]) == (["portercrate 0.3.0"], ["porteruv 4.5"])
    await its.sleep()
    await its.wake()
    assert await its.output("portercrate") == "from cargo"


@pytest.mark.slow
async def test_it_is_shown_to_people(stage: Stage) -> None:
    its = await Workspace.of(stage)
    info = "~/.local/lib/python3.11/site-packages/mine-1.0.dist-info"
    await its.run(f"mkdir -p {info} && printf 'Name: mine\\nVersion: 1.0\\n' > {info}/METADATA")
    await its.until("mine==1.0")
    with its.manager.seating.volumes.open(stage.owner) as volume:
        found = environment_file.read(volume)
    assert found is not None
    told = workspace_texts.environment(found)
    assert "mine==1.0" in told
    assert found.base.digest in told
    assert found.base.system in told
    its.path.write_text('{"version": 1, "npm": "all"}')
    with its.manager.seating.volumes.open(stage.owner) as volume, pytest.raises(environment_file.Unreadable):
        environment_file.read(volume)


BREAK = """
import os, pathlib, re
home = pathlib.Path.home()
for site in (home / ".local/lib").glob("python3.*"):
    site.rename(site.with_name("python3.4"))
for name in ("python", "python3", *(f"python3.{n}" for n in range(4, 30))):
    path = pathlib.Path("/workspace/env/bin") / name
    if path.is_symlink():
        path.unlink()
        path.symlink_to("/usr/bin/python3.4")
script = home / ".local/bin/porterdemo"
script.write_text(re.sub("^#!.*", "#!/usr/bin/python3.4", script.read_text()))
"""


@pytest.mark.slow
async def test_what_another_system_broke_is_rebuilt_and_told(stage: Stage) -> None:
    """The Python it was installed with is gone, as after an upgrade of the system."""
    its = await Workspace.of(stage)
    python = await with_pip(its)
    its.put("wheels/porterdemo-1.5-py3-none-any.whl", wheel("porterdemo", "1.5", "from pip", script=True))
    its.put("wheels/porterenv-2.5-py3-none-any.whl", wheel("porterenv", "2.5", "from a venv", script=True))
    await its.run(f"{PIP.replace('python3', python, 1)} porterdemo")
    await its.run(
        f"{python} -m venv --without-pip env && {python} -m pip --python env/bin/python install -q --no-index "
        "--find-links wheels porterenv"
    )
    await its.until("porterdemo", "porterenv")
    its.put("break.py", BREAK.encode())
    await its.run("python3 break.py; rm -rf break.py wheels")
    await its.until('"python": "3.4"')
    await its.sleep()
    its.on_another_system(python={"/usr/bin/python3": "3.99.0"})
    report = await its.wake()
    assert any("the system under this sandbox changed since: Python" in note for note in report.notes), report.notes
    written = await its.until("9" * 64, '"rebuilt"')
    assert len(written["rebuilt"]["done"]) == 2, written["rebuilt"]
    assert written["rebuilt"]["failed"] == []
    told = await its.run("porterdemo; env/bin/porterenv")
    assert told.output.split("\n")[:2] == ["from pip", "from a venv"]
    said = "\n".join(told.notes)
    assert "rebuilt: pip packages: porterdemo" in said
    assert "rebuilt: the virtual environment /workspace/env (its Python is gone)" in said
    assert not (await its.run("true")).notes
    assert not list(its.files.glob("*.before-rebuild"))


@pytest.mark.slow
async def test_what_cannot_be_rebuilt_is_told_at_the_next_wake_and_stays(stage: Stage) -> None:
    """A compiled package, and no way out to fetch it."""
    its = await Workspace.of(stage)
    await with_pip(its)
    version = await its.output("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")
    site = f"~/.local/lib/python{version}/site-packages"
    await its.run(
        f"mkdir -p {site}/compiled-1.0.dist-info && cd {site} && echo nothing > compiled.cpython-34m.so && "
        "printf 'Name: compiled\\nVersion: 1.0\\n' > compiled-1.0.dist-info/METADATA && "
        "printf 'compiled.cpython-34m.so,,\\n' > compiled-1.0.dist-info/RECORD; cd /workspace"
    )
    await its.until("compiled==1.0")
    await its.sleep()
    its.on_another_system()
    await its.wake()
    written = await its.until("9" * 64, '"rebuilt"')
    (failed,) = written["rebuilt"]["failed"]
    assert "compiled==1.0 (compiled for another system)" in failed
    await its.sleep()
    report = await its.wake()
    assert any(note.startswith("not rebuilt: pip packages: compiled==1.0") for note in report.notes), report.notes
    assert "compiled" in await its.output("ls ~/.local/lib/python*/site-packages")
    assert "compiled for another system" in await its.output("porter-environment check")


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"version": 99}', b"[" * 100_000, b'{"version": 1, "base": {"digest": "x"}}',
     b'{"version": 1, "base": {"digest": "sha256:%b"}, "npm": ["--registry=http://evil.example/ x"]}' % (b"1" * 64),
     b'{"version": 1, "base": {"digest": "sha256:%b"}, "python": [{"kind": "venv", "where": "../..", "python": "3", '
     b'"packages": []}]}' % (b"1" * 64),
     b'{"version": 1, "base": {"digest": "sha256:%b"}, "python": [{"kind": "user", "where": "/x", "python": "3", '
     b'"packages": ["-r /etc/passwd"]}]}' % (b"1" * 64)],
)  # fmt: skip
async def test_a_forged_one_is_refused_told_and_written_anew(stage: Stage, content: bytes) -> None:
    its = await Workspace.of(stage)
    info = "~/.local/lib/python3.11/site-packages/mine-1.0.dist-info"
    await its.run(f"mkdir -p {info} && printf 'Name: mine\\nVersion: 1.0\\n' > {info}/METADATA")
    await its.until("mine==1.0")
    await its.sleep()
    its.path.write_bytes(content)
    report = await its.wake()
    assert any(note.startswith("environment.json was not used") for note in report.notes), report.notes
    await its.run("true")
    await its.until("mine==1.0")
    assert not [task for task in await its.manager.running_tasks(stage.owner) if "rebuild" in task.argv]
