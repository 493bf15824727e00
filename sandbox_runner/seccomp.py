"""The system call filter of a sandbox, as classic BPF, built with the standard library alone.

A list of what is refused on top of namespaces and absent capabilities: ways to new kernel attack surface (namespaces,
mounts, keys, bpf, io_uring), to other processes' memory, to the terminal of whoever watches, and socket families other
than unix, internet and route netlink. The layout of ``struct seccomp_data`` and the return values are those of
https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html; numbers are from the kernel's
``arch/x86/entry/syscalls/syscall_64.tbl`` and ``include/uapi/asm-generic/unistd.h`` (aarch64).
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass, field

_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ARGUMENTS = 16  # offset of args[0]; the low half comes first on both little-endian architectures

_X32_BIT = 0x40000000
# NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME (0x80) is part of the exit signal in clone().
_NEW_NAMESPACES = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_NETLINK_ROUTE = 0
# Default, ICMP (datagram ping), TCP, UDP, ICMPv6: others load kernel modules that nobody here needs (SCTP, DCCP, …).
_PROTOCOLS = (0, 1, 6, 17, 58)

# System calls that are new since the tables were unified have one number everywhere.
_REFUSED_EVERYWHERE = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "set_mempolicy_home_node": 450,
    "statmount": 457,
    "listmount": 458,
    "open_tree_attr": 467,
}
# Programs probe for these and have an older way; ENOSYS sends them there. The flags of clone3 lie in memory, where a
# filter cannot look.
_ABSENT_EVERYWHERE = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435}


@dataclass(frozen=True)
class Architecture:
    """Numbers of one architecture; ``audit`` is its AUDIT_ARCH value."""

    audit: int
    refused: dict[str, int]
    clone: int
    ioctl: int
    socket: int
    socketpair: int
    personality: int
    has_x32: bool = False
    absent: dict[str, int] = field(default_factory=lambda: dict(_ABSENT_EVERYWHERE))


X86_64 = Architecture(
    audit=0xC000003E,
    clone=56,
    ioctl=16,
    socket=41,
    socketpair=53,
    personality=135,
    has_x32=True,
    refused={
        "ptrace": 101,
        "syslog": 103,
        "uselib": 134,
        "ustat": 136,
        "sysfs": 139,
        "vhangup": 153,
        "modify_ldt": 154,
        "pivot_root": 155,
        "adjtimex": 159,
        "chroot": 161,
        "acct": 163,
        "settimeofday": 164,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "sethostname": 170,
        "setdomainname": 171,
        "iopl": 172,
        "ioperm": 173,
        "init_module": 175,
        "delete_module": 176,
        "quotactl": 179,
        "nfsservctl": 180,
        "lookup_dcookie": 212,
        "clock_settime": 227,
        "mbind": 237,
        "set_mempolicy": 238,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "migrate_pages": 256,
        "unshare": 272,
        "move_pages": 279,
        "perf_event_open": 298,
        "fanotify_init": 300,
        "fanotify_mark": 301,
        "name_to_handle_at": 303,
        "open_by_handle_at": 304,
        "clock_adjtime": 305,
        "setns": 308,
        "process_vm_readv": 310,
        "process_vm_writev": 311,
        "kcmp": 312,
        "finit_module": 313,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
        **_REFUSED_EVERYWHERE,
    },
)

AARCH64 = Architecture(
    audit=0xC00000B7,
    clone=220,
    ioctl=29,
    socket=198,
    socketpair=199,
    personality=92,
    refused={
        "lookup_dcookie": 18,
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "nfsservctl": 42,
        "chroot": 51,
        "vhangup": 58,
        "quotactl": 60,
        "acct": 89,
        "unshare": 97,
        "kexec_load": 104,
        "init_module": 105,
        "delete_module": 106,
        "clock_settime": 112,
        "syslog": 116,
        "ptrace": 117,
        "reboot": 142,
        "sethostname": 161,
        "setdomainname": 162,
        "settimeofday": 170,
        "adjtimex": 171,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "swapon": 224,
        "swapoff": 225,
        "mbind": 235,
        "set_mempolicy": 237,
        "migrate_pages": 238,
        "move_pages": 239,
        "perf_event_open": 241,
        "fanotify_init": 262,
        "fanotify_mark": 263,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "clock_adjtime": 266,
        "setns": 268,
        "process_vm_readv": 270,
        "process_vm_writev": 271,
        "kcmp": 272,
        "finit_module": 273,
        "bpf": 280,
        "userfaultfd": 282,
        "kexec_file_load": 294,
        **_REFUSED_EVERYWHERE,
    },
)

ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}


class UnknownArchitectureError(Exception):
    """No table of system calls for this machine; a sandbox without a filter is not started."""


def filter_for_this_machine() -> bytes:
    """The filter in the form that ``bwrap --seccomp`` reads. Raises UnknownArchitectureError."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise UnknownArchitectureError(f"there is no system call table for {machine}")
    return build(ARCHITECTURES[machine])


def build(architecture: Architecture) -> bytes:
    """An array of ``struct sock_filter`` in the host's byte order."""
    program = _Program()
    program.load(_ARCHITECTURE)
    program.unless_equal(architecture.audit, _KILL_PROCESS)
    program.load(_NUMBER)
    if architecture.has_x32:
        program.add(_AT_LEAST, 0, 1, _X32_BIT)
        program.refuse(errno.ENOSYS)
    for number in sorted(architecture.refused.values()):
        program.add(_EQUAL, 0, 1, number)
        program.refuse(errno.EPERM)
    for number in sorted(architecture.absent.values()):
        program.add(_EQUAL, 0, 1, number)
        program.refuse(errno.ENOSYS)
    program.call(architecture.clone, _clone())
    program.call(architecture.ioctl, _ioctl())
    program.call(architecture.personality, _personality())
    program.call(architecture.socketpair, _socketpair())
    program.call(architecture.socket, _socket())
    program.add(_RETURN, 0, 0, _ALLOW)
    return program.encoded()


class _Program:
    """Instructions with relative jumps; a ``call`` block ends in a return on every path."""

    def __init__(self) -> None:
        self.instructions: list[tuple[int, int, int, int]] = []

    def add(self, code: int, if_true: int, if_false: int, value: int) -> None:
        self.instructions.append((code, if_true, if_false, value))

    def load(self, offset: int) -> None:
        self.add(_LOAD, 0, 0, offset)

    def load_argument(self, index: int) -> None:
        self.load(_ARGUMENTS + 8 * index)

    def refuse(self, number: int) -> None:
        self.add(_RETURN, 0, 0, _ERRNO | number)

    def allow(self) -> None:
        self.add(_RETURN, 0, 0, _ALLOW)

    def unless_equal(self, value: int, result: int) -> None:
        self.add(_EQUAL, 1, 0, value)
        self.add(_RETURN, 0, 0, result)

    def allow_one_of(self, values: tuple[int, ...], otherwise: int) -> None:
        for index, value in enumerate(values):
            self.add(_EQUAL, len(values) - index, 0, value)
        self.refuse(otherwise)
        self.allow()

    def call(self, number: int, block: _Program) -> None:
        self.add(_EQUAL, 0, len(block.instructions), number)
        self.instructions.extend(block.instructions)

    def encoded(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in self.instructions)


def _clone() -> _Program:
    block = _Program()
    block.load_argument(0)
    block.add(_ANY_BIT, 0, 1, _NEW_NAMESPACES)
    block.refuse(errno.EPERM)
    block.allow()
    return block


def _ioctl() -> _Program:
    block = _Program()
    block.load_argument(1)
    block.add(_EQUAL, 1, 0, _TIOCSTI)
    block.add(_EQUAL, 0, 1, _TIOCLINUX)
    block.refuse(errno.EPERM)
    block.allow()
    return block


def _personality() -> _Program:
    block = _Program()
    block.load_argument(0)
    block.allow_one_of((0, 0xFFFFFFFF), errno.EPERM)  # Linux itself, and asking
    return block


def _socketpair() -> _Program:
    block = _Program()
    block.load_argument(0)
    block.allow_one_of((_UNIX,), errno.EAFNOSUPPORT)
    return block


def _socket() -> _Program:
    internet = _Program()
    internet.load_argument(2)
    internet.allow_one_of(_PROTOCOLS, errno.EPROTONOSUPPORT)
    netlink = _Program()
    netlink.load_argument(2)
    netlink.allow_one_of((_NETLINK_ROUTE,), errno.EPROTONOSUPPORT)
    block = _Program()
    block.load_argument(0)
    block.add(_EQUAL, 0, 1, _UNIX)
    block.allow()
    block.call(_INET, internet)
    block.call(_INET6, internet)
    block.call(_NETLINK, netlink)
    block.refuse(errno.EAFNOSUPPORT)
    return block
