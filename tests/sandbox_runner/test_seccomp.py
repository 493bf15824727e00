"""The filter is run here instruction by instruction, so that both architectures are tested on either."""

from __future__ import annotations

import errno
import struct

import pytest

from sandbox_runner.seccomp import AARCH64, X86_64, Architecture, build

ALLOW, KILL = 0x7FFF0000, 0x80000000
BOTH = pytest.mark.parametrize("arch", [X86_64, AARCH64], ids=["x86_64", "aarch64"])


def refused(number: int) -> int:
    return 0x00050000 | number


def verdict(arch: Architecture, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would answer for a system call (classic BPF, as in seccomp(2))."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, arch.audit if audit is None else audit, 0, *(a % 2**64 for a in padded))
    program = list(struct.iter_unpack("=HBBI", build(arch)))
    accumulator = position = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            position += if_true if holds else if_false


@BOTH
def test_ordinary_calls_are_allowed(arch: Architecture) -> None:
    named = {*arch.refused.values(), *arch.absent.values(), arch.clone, arch.ioctl, arch.socket}
    named |= {arch.socketpair, arch.personality}
    assert [number for number in range(500) if number not in named and verdict(arch, number) != ALLOW] == []


@BOTH
def test_listed_calls_are_refused(arch: Architecture) -> None:
    assert {verdict(arch, number) for number in arch.refused.values()} == {refused(errno.EPERM)}
    assert {verdict(arch, number) for number in arch.absent.values()} == {refused(errno.ENOSYS)}
    assert len(set(arch.refused.values())) == len(arch.refused)


@BOTH
def test_both_tables_refuse_the_same_calls(arch: Architecture) -> None:
    only_x86 = {"uselib", "ustat", "sysfs", "modify_ldt", "iopl", "ioperm"}
    assert set(X86_64.refused) - set(AARCH64.refused) == only_x86
    assert set(AARCH64.refused) <= set(X86_64.refused)


@BOTH
def test_foreign_architecture_kills(arch: Architecture) -> None:
    for audit in (0x40000003, 0x40000028, 0xC000003E ^ 0xC00000B7 ^ arch.audit):
        assert verdict(arch, 1, audit=audit) == KILL


def test_x32_is_refused() -> None:
    assert verdict(X86_64, 0x40000000) == refused(errno.ENOSYS)
    assert verdict(X86_64, 0xFFFFFFFF) == refused(errno.ENOSYS)


@BOTH
def test_clone_makes_threads_but_no_namespaces(arch: Architecture) -> None:
    assert verdict(arch, arch.clone, 0x003D0F00) == ALLOW  # a thread, as the C library makes it
    assert verdict(arch, arch.clone, 17) == ALLOW
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(arch, arch.clone, flag | 17) == refused(errno.EPERM), hex(flag)


@BOTH
def test_terminal_injection_is_refused(arch: Architecture) -> None:
    for request in (0x5412, 0x541C):
        assert verdict(arch, arch.ioctl, 0, request) == refused(errno.EPERM)
        # The kernel looks at the low half only (CVE-2019-10063).
        assert verdict(arch, arch.ioctl, 0, request | 1 << 32) == refused(errno.EPERM)
    assert verdict(arch, arch.ioctl, 0, 0x5401) == ALLOW


@BOTH
def test_sockets(arch: Architecture) -> None:
    assert verdict(arch, arch.socket, 1, 1, 0) == ALLOW
    for family in (2, 10):
        for protocol in (0, 6, 17):
            assert verdict(arch, arch.socket, family, 1, protocol) == ALLOW
        for protocol in (33, 132, 136, 262):
            assert verdict(arch, arch.socket, family, 1, protocol) == refused(errno.EPROTONOSUPPORT)
    assert verdict(arch, arch.socket, 16, 3, 0) == ALLOW
    assert verdict(arch, arch.socket, 16, 3, 12) == refused(errno.EPROTONOSUPPORT)
    allowed = [family for family in range(64) if verdict(arch, arch.socket, family, 1, 0) == ALLOW]
    assert allowed == [1, 2, 10, 16]
    assert verdict(arch, arch.socketpair, 1, 1, 0) == ALLOW
    assert verdict(arch, arch.socketpair, 30, 1, 0) == refused(errno.EAFNOSUPPORT)


@BOTH
def test_personality_may_be_asked_but_not_changed(arch: Architecture) -> None:
    assert verdict(arch, arch.personality, 0xFFFFFFFF) == ALLOW
    assert verdict(arch, arch.personality, 0x0040000) == refused(errno.EPERM)
