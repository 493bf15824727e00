"""Programs as people use them, in a real sandbox: all of them find their way through the proxy."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from tests.sandbox_runner.conftest import backend
from tests.sandbox_runner.egress.inside import inside
from tests.sandbox_runner.egress.servers import Certificates, Seen, plain, server
from tests.sandbox_runner.egress.yard import yard

__all__ = ["backend"]

HOST = "files.example"


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed here")


def files(found: dict[str, bytes]) -> Callable[[Seen], bytes]:
    """A web server's answer from a tree of files."""

    def answer(seen: Seen) -> bytes:
        path = seen.first.split(" ")[1].partition("?")[0]
        if path not in found:
            return plain(b"", status=b"404 Not Found")
        kind = b"text/html" if path.endswith("/") else b"application/octet-stream"
        return plain(found[path], b"Content-Type: " + kind)

    return answer


ASKING = {
    "curl": "curl -sS {url}",
    "wget": "wget -q -O - {url}",
    "python urllib": "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"{url}\").read().decode())'",
    "node https": 'node -e \'require("{scheme}").get("{url}", (r) => r.on("data", (d) => console.log(String(d))))\'',
    "node fetch": "node -e 'fetch(\"{url}\").then((r) => r.text()).then(console.log)'",
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("program", ASKING)
async def test_a_page(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend, program: str, scheme: str) -> None:
    binary = program.split(" ")[0].replace("python", "python3")
    if shutil.which(binary) is None:
        pytest.skip(f"{binary} is not installed here")
    certificates = Certificates(tmp_path)
    tls = certificates.context(HOST) if scheme == "https" else None
    async with (
        server(tls=tls) as outside,
        yard(
            tmp_path, sqlite_url, allow=[f"{HOST}:{outside.port}"], allow_private=[HOST], ca_file=str(certificates.path)
        ) as made,
    ):
        made.names[HOST] = [["127.0.0.1"]]
        async with inside(made, backend, tmp_path / "volume") as its:
            url = f"{scheme}://{HOST}:{outside.port}/page"
            result = await its.run(ASKING[program].format(url=url, scheme=scheme))
            assert "hello from outside" in result.output, result
            assert outside.seen[0].first == "GET /page HTTP/1.1"


@needs("curl")
async def test_a_refusal_says_why(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        await made.hear("hello")
        assert "host_not_allowed" in await its.output("curl -sS http://other.example/")
        refused = await its.run("curl -sS https://other.example/")
        assert "403" in refused.output
        said = await its.output("python3 -c 'import urllib.request; urllib.request.urlopen(\"https://other.example\")'")
        assert "other.example is not on the list of hosts that this sandbox may reach" in said


def wheel(name: str) -> bytes:
    """The smallest package that pip installs."""
    info = f"{name}-1.0.dist-info"
    content = {
        f"{name}.py": b"SAID = 'installed through the proxy'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return packed.getvalue()


async def test_pip_installs_from_an_index(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    certificates = Certificates(tmp_path)
    data = wheel("doorbell")
    digest = hashlib.sha256(data).hexdigest()
    link = f'<a href="/doorbell-1.0-py3-none-any.whl#sha256={digest}">doorbell-1.0-py3-none-any.whl</a>'.encode()
    found = {"/simple/doorbell/": link, "/doorbell-1.0-py3-none-any.whl": data}
    async with (
        server(files(found), tls=certificates.context(HOST)) as outside,
        yard(
            tmp_path, sqlite_url, allow=[f"{HOST}:{outside.port}"], allow_private=[HOST], ca_file=str(certificates.path)
        ) as made,
    ):
        made.names[HOST] = [["127.0.0.1"]]
        async with inside(made, backend, tmp_path / "volume") as its:
            if "No module" in await its.output("python3 -m pip --version"):
                pytest.skip("the Python here has no pip")
            index = f"https://{HOST}:{outside.port}/simple/"
            result = await its.run(
                f"python3 -m pip install -q --no-deps --break-system-packages --target ~/lib -i {index} doorbell 2>&1"
                " && PYTHONPATH=~/lib python3 -c 'import doorbell; print(doorbell.SAID)'",
                120,
            )
            assert "installed through the proxy" in result.output, result.output
            tunnels = {(each.method, each.host) for each in await made.settled()}
            assert tunnels == {("CONNECT", HOST)}


def repository(folder: Path) -> dict[str, bytes]:
    """A git repository as plain files of a web server."""
    work = folder / "work"
    commands = (
        ["git", "init", "-q", "-b", "main", str(work)],
        ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty",
         "-m", "through the proxy"],
        ["git", "-C", str(work), "update-server-info"],
    )  # fmt: skip
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    git = work / ".git"
    return {f"/repo/{path.relative_to(git)}": path.read_bytes() for path in git.rglob("*") if path.is_file()}


@needs("git")
async def test_git_clones(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    certificates = Certificates(tmp_path)
    async with (
        server(files(repository(tmp_path)), tls=certificates.context(HOST)) as outside,
        yard(
            tmp_path, sqlite_url, allow=[f"{HOST}:{outside.port}"], allow_private=[HOST], ca_file=str(certificates.path)
        ) as made,
    ):
        made.names[HOST] = [["127.0.0.1"]]
        async with inside(made, backend, tmp_path / "volume") as its:
            url = f"https://{HOST}:{outside.port}/repo"
            result = await its.run(f"git clone -q {url} cloned && git -C cloned log --format=%s")
            assert result.output.strip() == "through the proxy"


@needs("npm")
async def test_npm_asks_its_registry(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    certificates = Certificates(tmp_path)
    about = b'{"name": "doorbell", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": {"name": "doorbell", '
    about += b'"version": "1.2.3", "dist": {"tarball": "https://x.example/a.tgz"}}}}'
    async with (
        server(files({"/doorbell": about}), tls=certificates.context(HOST)) as outside,
        yard(
            tmp_path, sqlite_url, allow=[f"{HOST}:{outside.port}"], allow_private=[HOST], ca_file=str(certificates.path)
        ) as made,
    ):
        made.names[HOST] = [["127.0.0.1"]]
        async with inside(made, backend, tmp_path / "volume") as its:
            command = f"npm view doorbell version --registry https://{HOST}:{outside.port}/ --no-update-notifier"
            result = await its.run(command, 120)
            assert "1.2.3" in result.output, result.output


@needs("curl")
async def test_a_credential_for_programs_that_want_one(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    certificates = Certificates(tmp_path)
    async with server(tls=certificates.context(HOST)) as outside:
        entry = {"host": f"{HOST}:{outside.port}", "value": "Bearer the-real-one-4711", "env": "API_TOKEN"}
        async with yard(
            tmp_path, sqlite_url, credentials=[entry], allow_private=[HOST], ca_file=str(certificates.path)
        ) as made:
            made.names[HOST] = [["127.0.0.1"]]
            async with inside(made, backend, tmp_path / "volume") as its:
                for asking in ("curl -sS", "wget -q -O -") if shutil.which("wget") else ("curl -sS",):
                    option = "-H" if asking.startswith("curl") else "--header"
                    command = f'{asking} {option} "Authorization: Bearer $API_TOKEN" https://{HOST}:{outside.port}/'
                    assert "hello from outside" in await its.output(command)
                    assert outside.seen[-1].headers["authorization"] == "Bearer the-real-one-4711"
                assert "4711" not in await its.output("env; cat /proc/*/environ | tr '\\0' '\\n'")
