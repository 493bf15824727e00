"""What every backend keeps, whatever isolates: one class of tests, inherited by each backend's own.

A class that inherits gives the fixture ``backend``.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.sandbox import SandboxUnavailable
from sandbox_runner.backend import Backend
from sandbox_runner.disk_usage import descendants
from sandbox_runner.testing import LIMITS, own_uid, shell
from tests.sandbox_runner.egress.inside import inside
from tests.sandbox_runner.egress.servers import Certificates, plain, server
from tests.sandbox_runner.egress.yard import yard

SECRET = "a-secret-of-the-host"


class SandboxContract:
    async def test_it_says_what_it_promises_and_what_not(self, backend: Backend) -> None:
        probe = await backend.probe()
        assert probe.works
        assert probe.promises
        assert backend.name in probe.reason

    async def test_a_volume_outlives_its_sandboxes(self, backend: Backend, tmp_path: Path) -> None:
        async with shell(backend, tmp_path) as inside:
            await inside.run("echo one > /workspace/file; echo two > ~/file; echo three > /tmp/file")
        assert (tmp_path / "workspace/file").stat().st_uid == (own_uid() or os.geteuid())
        async with shell(backend, tmp_path) as inside:
            assert await inside.run("cat /workspace/file ~/file; ls /tmp | grep -v output") == "one\ntwo"

    async def test_the_system_is_there_and_cannot_be_written(self, backend: Backend, tmp_path: Path) -> None:
        async with shell(backend, tmp_path) as inside:
            assert (await inside.run("python3 -c 'print(6 * 7)'; git --version | cut -c1-3")).split() == ["42", "git"]
            said = await inside.run(
                "for d in / /usr /etc /opt /bin /sys /home; do touch $d/x 2>/dev/null && echo $d; done"
            )
            assert said == ""

    async def test_nothing_of_the_host_is_inside(
        self, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NIGHTPORTER_SECRET", SECRET)
        (tmp_path / "outside").write_text(SECRET)
        async with shell(backend, tmp_path / "volume") as inside:
            said = await inside.run(f"env; cat /proc/*/environ {tmp_path}/outside /etc/shadow; ls {tmp_path}", 60)
            assert SECRET not in said
            assert "No such file" in said
            ids = (await inside.run("id -u; id -G; grep -c . /proc/self/status >/dev/null; nproc > /dev/null")).split()
            assert "0" not in ids

    async def test_there_is_no_network(self, backend: Backend, tmp_path: Path) -> None:
        async with shell(backend, tmp_path) as inside:
            program = (
                "import socket\n"
                "print([name for _, name in socket.if_nameindex()])\n"
                "try: socket.create_connection(('1.1.1.1', 80), 2); print('connected')\n"
                "except OSError: print('refused')"
            )
            said = await inside.python(program)
            assert "refused" in said
            assert "eth" not in said

    async def test_no_capability_and_no_way_to_get_one(self, backend: Backend, tmp_path: Path) -> None:
        async with shell(backend, tmp_path) as inside:
            caps = await inside.run("grep -h ^Cap /proc/self/status | cut -f2 | sort -u")
            assert set(caps.split()) <= {"0000000000000000"}
            assert "no" not in (await inside.run("mount -t tmpfs none /mnt 2>/dev/null && echo no")).split()
            assert "no" not in (await inside.run("unshare --mount true 2>/dev/null && echo no")).split()

    async def test_many_sandboxes_at_once(self, backend: Backend, tmp_path: Path) -> None:
        async def one(number: int) -> str:
            async with shell(backend, tmp_path / str(number), number=number) as inside:
                return await inside.run(f"echo {number} > /workspace/n; cat /workspace/n")

        assert await asyncio.gather(*map(one, range(1, 4))) == ["1", "2", "3"]

    async def test_variables_from_the_settings(self, backend: Backend, tmp_path: Path) -> None:
        limits = replace(LIMITS, environment={"GREETING": "good evening", "LANG": "C"})
        async with shell(backend, tmp_path, limits=limits) as inside:
            assert await inside.run("echo $GREETING, $LANG, $HOME") == "good evening, C, /home/porter"

    async def test_a_file_and_memory_are_bounded(
        self, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        async with shell(backend, tmp_path) as inside:
            await inside.run("head -c 100M /dev/zero > /workspace/big 2>/dev/null")
            assert (tmp_path / "workspace/big").stat().st_size <= LIMITS.disk_mb << 20
            said = await inside.run("python3 -c 'x = bytearray(1 << 30); print(len(x))' || echo refused", 60)
            assert said.split()[-1] == "refused"
        assert os.listdir() == []

    async def test_nothing_outlives_it(self, backend: Backend, tmp_path: Path) -> None:
        started = (
            "setsid nohup sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1001' &); for i in 1 2 3; do sleep 999 & done"
        )
        async with shell(backend, tmp_path) as inside:
            await inside.run(f"{started}; true")
            inside_it = descendants(inside.sandbox.pid)
            assert len(inside_it) > 5 or backend.name == "gvisor"
        async with asyncio.timeout(10):
            while any(Path(f"/proc/{pid}").exists() for pid in inside_it):
                await asyncio.sleep(0.01)
        assert backend.reap() == []

    async def test_hanging_up_ends_it(self, backend: Backend, tmp_path: Path) -> None:
        """As when the manager dies."""
        async with shell(backend, tmp_path) as inside:
            inside.sandbox.socket.close()
            async with asyncio.timeout(20):
                await inside.sandbox.wait()

    async def test_what_a_killed_manager_left_is_removed_by_the_next(self, backend: Backend, tmp_path: Path) -> None:
        async with shell(backend, tmp_path, sandbox_id="left") as inside:
            pid = inside.sandbox.pid
            left = await asyncio.to_thread(backend.reap)
            assert len(left) == 1
            async with asyncio.timeout(10):
                while Path(f"/proc/{pid}").exists() and pid:
                    await asyncio.sleep(0.01)

    async def test_an_id_runs_once(self, backend: Backend, tmp_path: Path) -> None:
        async with shell(backend, tmp_path, sandbox_id="same"):
            with pytest.raises(SandboxUnavailable, match="running already"):
                async with shell(backend, tmp_path, sandbox_id="same"):
                    pass
        async with shell(backend, tmp_path, sandbox_id="same") as inside:
            assert await inside.run("echo again") == "again"

    async def test_what_leaves_it_goes_through_the_proxy_alone(
        self, backend: Backend, tmp_path: Path, sqlite_url: str
    ) -> None:
        asked = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://{}/\", timeout=20).read().decode())'"
        (tmp_path / "yard").mkdir()
        async with (
            server(plain(b"from outside")) as outside,
            yard(
                tmp_path / "yard", sqlite_url, allow=[f"go.example:{outside.port}"], allow_private=["go.example"]
            ) as made,
            inside(made, backend, tmp_path / "volume") as its,
        ):
            made.names["go.example"] = [["127.0.0.1"]]
            go = asked.format(f"go.example:{outside.port}")
            assert await its.output(go) == "from outside"
            refused = await its.output(f"curl -sS -m 20 http://other.example:{outside.port}/")
            assert json.loads(refused)["error"] == "host_not_allowed"
            around = "env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy"
            assert "URLError" in await its.output(f"{around} {go}")
            assert "URLError" in await its.output(f"{around} {asked.format(outside.authority)}")
            assert len(outside.seen) == 1
            await made.ledger.flush()
            assert {(effect.host, effect.status) for effect in await made.effects()} == {
                ("go.example", "settled"), ("other.example", "refused"),
            }  # fmt: skip

    async def test_a_credential_is_added_outside_and_programs_trust_what_ends_their_tls(
        self, backend: Backend, tmp_path: Path, sqlite_url: str
    ) -> None:
        """For the hosts it is for; to another host's TLS nothing is done, and its certificate is its own."""
        (tmp_path / "elsewhere").mkdir()
        certificates, others = Certificates(tmp_path), Certificates(tmp_path / "elsewhere")
        secret = "Bearer never-inside-4711"
        (tmp_path / "yard").mkdir()
        async with (
            server(plain(b"from the api"), tls=certificates.context("api.example")) as api,
            server(plain(b"from elsewhere"), tls=others.context("else.example")) as other,
            yard(
                tmp_path / "yard", sqlite_url, allow=[f"else.example:{other.port}"],
                allow_private=["api.example", "else.example"], ca_file=str(certificates.path),
                credentials=[{"host": f"api.example:{api.port}", "value": secret, "env": "API_TOKEN"}],
            ) as made,
            inside(made, backend, tmp_path / "volume") as its,
        ):  # fmt: skip
            made.names.update({"api.example": [["127.0.0.1"]], "else.example": [["127.0.0.1"]]})
            url, elsewhere = f"https://api.example:{api.port}/x", f"https://else.example:{other.port}/x"
            (its.workspace / "other.pem").write_bytes(others.path.read_bytes())
            python = f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\", timeout=20).read().decode())'"
            asked = [f'curl -sS -m 20 -H "Authorization: Bearer $API_TOKEN" {url}', python]
            if await its.output("command -v node"):
                asked.append(f"node -e 'fetch(\"{url}\").then(r => r.text()).then(console.log)'")
            for command in asked:
                assert await its.output(command) == "from the api", command
            assert [seen.headers.get("authorization") for seen in api.seen] == [secret] * len(asked)
            said = await its.output(f"curl -sS -m 20 {elsewhere}")
            assert said.startswith("curl: ("), "its own, which nobody here knows"
            assert await its.output(f"curl -sS -m 20 --cacert other.pem {elsewhere}") == "from elsewhere"
            assert [seen.headers.get("authorization") for seen in other.seen] == [None]
            assert "never-inside" not in await its.output(
                "env; cat /proc/*/environ $SSL_CERT_FILE 2>/dev/null | tr '\\0' '\\n'"
            )
