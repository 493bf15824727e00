"""A whole Nightporter for a story: ``nightporter up`` as its users run it, with a home of its own on free ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

PATIENCE = 30.0


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """The first true value of ``condition``; fails with ``what`` when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


class House:
    """One home and the ``up`` that serves it."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.settings = settings
        self.command = "up"
        """What ``start`` starts: also ``gateway`` or ``runner``."""
        self.arguments: Sequence[str] = ()
        """Of that command."""
        self.process: subprocess.Popen[str] | None = None
        self.output: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("NIGHTPORTER_")}
        return {
            **clean,
            "NIGHTPORTER_HOME": str(self.home),
            "NIGHTPORTER_HTTP__LISTEN": "127.0.0.1:0",
            "NIGHTPORTER_EMAIL__LISTEN": "127.0.0.1:0",
            **{f"NIGHTPORTER_{key.upper()}": value for key, value in self.settings.items()},
        }

    def launch(self, *arguments: str, stderr: int) -> subprocess.Popen[str]:
        """Start the command line with this home."""
        return subprocess.Popen(
            [sys.executable, "-m", "nightporter", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def start(self) -> House:
        self.process = self.launch(self.command, *self.arguments, stderr=subprocess.STDOUT)
        self.output = []
        threading.Thread(target=self._collect, args=(self.process,), daemon=True).start()
        process = self.process
        try:
            wait_until(lambda: self._ready() or process.poll() is not None, f"{self.command} says it is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-4000:]}") from None
        assert self._ready(), self.log()
        return self

    def _collect(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line)

    def _ready(self) -> bool:
        return any("is ready." in line for line in self.output)

    def log(self) -> str:
        return "".join(self.output)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=10)
        self.process = None
        return code

    def kill_everything(self) -> None:
        """SIGKILL ``up`` itself: everything below it has to go with it."""
        assert self.process is not None
        children = self.tree()
        self.process.kill()
        self.process.wait()
        self.process = None
        wait_until(lambda: not any(_alive(pid) for pid in children), "nothing outlives up")

    # Processes

    def tree(self) -> list[int]:
        """Every process below ``up``."""
        assert self.process is not None
        found, waiting = [], [self.process.pid]
        while waiting:
            children = _children(waiting.pop())
            found += children
            waiting += children
        return found

    def pid(self, role: str) -> int:
        """The process of a role: ``runner``, ``gateway``, ``sandbox-manager``, ``valkey-server``."""
        assert self.process is not None
        for pid in _children(self.process.pid):
            line = _command_line(pid)
            if line == f"nightporter: {role}" or (role == "valkey-server" and "valkey-server" in line):
                return pid
        raise AssertionError(f"no {role} among {[_command_line(pid) for pid in _children(self.process.pid)]}")

    def kill(self, role: str) -> None:
        """SIGKILL the process of a role, and wait until ``up`` has started another."""
        victim = self.pid(role)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: self._replaced(role, victim), f"up starts another {role}")

    def _replaced(self, role: str, victim: int) -> bool:
        try:
            return self.pid(role) != victim
        except AssertionError:
            return False

    # Talking

    @property
    def addresses(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.home / "run" / "listening.json").read_text())
        return found

    @property
    def token(self) -> str:
        return Path(self.settings.get("http__token_file", self.home / "token")).read_text().strip()

    @property
    def smtp_port(self) -> int:
        return int(self.addresses["smtp"].rpartition(":")[2])

    def client(self, timeout: float | httpx.Timeout = 10.0) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        # Plain HTTP: certificates, which take 25 ms to read, are not asked for.
        transport = httpx.HTTPTransport(retries=3, verify=False)
        return httpx.Client(
            base_url=f"http://{self.addresses['http']}", headers=headers, timeout=timeout, transport=transport
        )

    def post(self, text: str, message_id: str | None = None, **more: Any) -> str:
        """Say something until it is accepted; its message id."""
        body = {"text": text, "message_id": message_id or uuid4().hex, **more}

        def accepted() -> bool:
            try:
                with self.client() as client:
                    answer = client.post("/v1/messages", json=body)
            except httpx.TransportError:
                return False
            assert answer.status_code in (202, 503), answer.text
            return answer.status_code == 202

        wait_until(accepted, f"accepted: {text[:60]}")
        return str(body["message_id"])

    def status(self, message_id: str, user: str = "owner") -> dict[str, Any]:
        with self.client() as client:
            answer = client.get(f"/v1/messages/{message_id}", params={"user": user})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def answer(self, message_id: str, user: str = "owner", seconds: float = PATIENCE) -> dict[str, Any]:
        """The final state of a message."""

        def done() -> dict[str, Any] | None:
            try:
                found = self.status(message_id, user)
            except httpx.TransportError:
                return None
            return found if found["status"] in ("done", "failed") else None

        try:
            found: dict[str, Any] = wait_until(done, f"answered: {message_id}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()[-4000:]}") from None
        return found

    def say(self, text: str, **more: Any) -> str:
        """Say something and return the one reply to it."""
        user = more.get("user", "owner")
        found = self.answer(self.post(text, **more), user)
        assert len(found["replies"]) == 1, found
        return str(found["replies"][0]["text"])

    def events(self, after: int = 0, user: str = "owner") -> Iterator[dict[str, Any]]:
        """The journal as the event stream gives it: what is there now."""
        with self.client(timeout=httpx.Timeout(10, read=0.7)) as client:
            params = {"user": user, "after": str(after)}
            with client.stream("GET", "/v1/events", params=params) as answer:
                kind = ""
                try:
                    for line in answer.iter_lines():
                        if line.startswith("event: "):
                            kind = line[7:]
                        elif line.startswith("data: "):
                            yield {"kind": kind, **json.loads(line[6:])}
                except httpx.ReadTimeout:
                    return

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line, as a user of this home types it."""
        process = self.launch(*arguments, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def sleep_sandboxes(self) -> None:
        """Wait until every sandbox is asleep (the house must have been given a short ``sandbox__idle_seconds``)."""
        # Not only is its guest gone: its files are a generation, and its volume given back.
        with self.client() as client:
            wait_until(lambda: "nightporter_sandboxes_awake 0.0" in client.get("/metrics").text, "sandboxes sleep")


def _children(pid: int) -> list[int]:
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(child) for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except FileNotFoundError:
        pass
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
