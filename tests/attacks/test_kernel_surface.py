"""System calls that open new kernel surface, other processes or someone's terminal are refused."""

from __future__ import annotations

import errno
import platform
import struct
from pathlib import Path

import pytest

from sandbox_runner import seccomp
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import Shell, shell

CALL = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall({number}, {arguments})
print("allowed" if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""
REFUSED = seccomp.ARCHITECTURES[platform.machine()].refused


async def call(inside: Shell, number: int, arguments: str = "0, 0, 0, 0, 0") -> str:
    return await inside.python(CALL.format(number=number, arguments=arguments))


@pytest.mark.parametrize("name", ["unshare", "mount", "ptrace", "setns", "keyctl", "bpf", "userfaultfd", "pidfd_getfd"])
async def test_call_is_refused(inside: Shell, name: str) -> None:
    # Arguments under which the call would succeed or fail differently without the filter.
    arguments = {"unshare": "0x200"}.get(name, "0, 0, 0, 0, 0")
    assert await call(inside, REFUSED[name], arguments) == "EPERM"


async def test_every_listed_call_is_refused(inside: Shell) -> None:
    numbers = [number for name, number in REFUSED.items()]
    program = f"""
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for number in {numbers}:
    ctypes.set_errno(0)
    if libc.syscall(number, -1, -1, -1, -1, -1) != -1 or ctypes.get_errno() != errno.EPERM:
        print(number, errno.errorcode.get(ctypes.get_errno()))
"""
    assert await inside.python(program) == ""


@pytest.mark.parametrize("flag", ["0x10000000", "0x00020000", "0x20000000", "0x40000000"])
async def test_new_namespace_is_refused(inside: Shell, flag: str) -> None:
    clone = seccomp.ARCHITECTURES[platform.machine()].clone
    assert await call(inside, clone, f"{flag} | 17, 0, 0, 0, 0") == "EPERM"
    assert "Operation not permitted" in await inside.run("unshare --user true")


async def test_new_user_namespaces_are_off_without_the_filter_too(
    backend: BubblewrapBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--disable-userns``: should the filter ever miss a way, the limit of namespaces is reached."""
    allow_all = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    monkeypatch.setattr(seccomp, "filter_for_this_machine", lambda: allow_all)
    (tmp_path / "run2").mkdir()
    other = BubblewrapBackend(tmp_path / "run2")
    async with shell(other, tmp_path / "v") as inside:
        assert "No space left on device" in await inside.run("unshare --user true")
    await other.close()


async def test_clone3_and_io_uring_do_not_exist(inside: Shell) -> None:
    for number in (435, 425):
        assert await call(inside, number) == "ENOSYS"


@pytest.mark.parametrize("request_name", ["TIOCSTI", "0x541C"])
async def test_typing_into_a_terminal_is_refused(inside: Shell, request_name: str) -> None:
    program = f"""
import fcntl, os, pty, termios
from termios import TIOCSTI
if os.fork():
    os.wait()
else:
    leader, follower = pty.openpty()
    os.setsid()
    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    try:
        fcntl.ioctl(follower, {request_name}, b"x")
        print("typed")
    except OSError as error:
        print(error.errno)
"""
    assert await inside.python(program) == str(errno.EPERM)


async def test_x32_calls_are_refused_and_32_bit_ones_kill(inside: Shell) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("x32 is of x86-64")
    assert await call(inside, 0x40000000 + 39) == "ENOSYS"
    program = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, getpid; int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print("ran", ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
    await inside.run("cat > /tmp/int80.py <<'EOT'\n" + program + "\nEOT")
    answer = await inside.run("python3 /tmp/int80.py; echo $?")
    assert "ran" not in answer
    assert answer.endswith(str(128 + 31)), answer  # SIGSYS; without 32-bit support in the kernel SIGSEGV


async def test_ordinary_programs_work(inside: Shell) -> None:
    """A filter that refuses everything would pass the tests above."""
    program = """
import os, subprocess, tempfile, threading, socket, pty
threads = [threading.Thread(target=os.getpid) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
subprocess.run(["true"], check=True)
socket.socketpair(); socket.socket(socket.AF_INET); socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname())
pty.openpty(); socket.if_nameindex()
with tempfile.NamedTemporaryFile() as file: file.write(b"x")
print(open("/dev/null").read(), len(open("/dev/urandom", "rb").read(4)), "fine")
"""
    assert await inside.python(program) == " 4 fine"
    assert await inside.run("id -un; pwd; cd; pwd; cat /etc/hostname; ls -d $(command -v python3)") == (
        "porter\n/workspace\n/home/porter\nnightporter\n" + await inside.run("command -v python3")
    )
