"""The options of bubblewrap, from a description of the sandbox and of the host: a function without side effects.

Options travel through ``--args FD``, so that no host path shows in a command line. Files that exist only inside
(passwd, hosts, …) travel through descriptors, numbered from ``FIRST_DATA_FD`` in the order of ``Options.data``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandbox_runner import apt_sources
from sandbox_runner.host_python import BIN, GUEST_NAME, INSIDE, HostPython

GUEST_FD, ARGS_FD, INFO_FD, SECCOMP_FD, FIRST_DATA_FD = 3, 4, 5, 6, 7

UID = 1000
HOME = "/home/porter"
WORKSPACE = "/workspace"
GUEST = "/opt/nightporter/guest"
EGRESS_SOCKET = "/run/nightporter/egress.sock"
TRUST_BUNDLE = "/run/nightporter/ca-bundle.crt"
# Where programs look that no variable reaches (GnuTLS, apt).
SYSTEM_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"

FIRST = "/opt/nightporter/first"
"""Programs of ours that lie over the system's own of that name, which could not work here."""
PATH = f"{HOME}/.local/bin:{FIRST}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{BIN}"

FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    f"porter:x:{UID}:{UID}:Nightporter:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nporter:x:{UID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost nightporter\n::1 localhost ip6-localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"
    "protocols: files\n",
    "/etc/hostname": "nightporter\n",
}

CRONTAB = """#!/bin/sh
# crontab [FILE | - | -l | -e | -r]: timers of this sandbox; it is woken for them. Times are UTC, or as CRON_TZ= says.
folder=$HOME/.nightporter
file=$folder/crontab
keep() {
    mkdir -p "$folder" && head -c 8193 >"$file.new" || exit 1
    if [ "$(wc -c <"$file.new")" -gt 8192 ]; then
        rm -f "$file.new"; echo "crontab: it is longer than 8192 bytes" >&2; exit 1
    fi
    mv -f "$file.new" "$file"
}
case ${1--} in
-l) [ -s "$file" ] || { echo "no crontab for porter" >&2; exit 1; }; exec cat "$file" ;;
-r) exec rm -f "$file" ;;
-e) draft=$(mktemp) || exit 1
    trap 'rm -f "$draft"' EXIT
    [ ! -s "$file" ] || cat "$file" >"$draft"
    ${VISUAL:-${EDITOR:-vi}} "$draft" && keep <"$draft" ;;
-) keep ;;
-*) echo "usage: crontab [FILE | - | -l | -e | -r]" >&2; exit 2 ;;
*) [ -r "$1" ] || { echo "crontab: $1: cannot be read" >&2; exit 1; }; keep <"$1" ;;
esac
"""

# Our own programs: for a person the same as any other on PATH.
PROGRAMS = {
    f"{BIN}/porter-apt": f'#!/bin/sh\nexec {BIN}/python3 -I -S -B {GUEST}/packages apt "$@"\n',
    f"{FIRST}/crontab": CRONTAB,
    f"{BIN}/porter-environment": f'#!/bin/sh\nexec {BIN}/python3 -I -S -B {GUEST}/packages environment "$@"\n',
    **{f"{BIN}/{name}": '#!/bin/sh\nexec python3 -m pip "$@"\n' for name in ("pip", "pip3")},
}

# Public parts of /etc that programs need. Never a folder that may hold a key or a password: of /etc/ssl and /etc/pki
# only the certificates (an ordinary caller may be in the group that reads /etc/ssl/private).
_ETC = (
    "alternatives",
    "apt/keyrings",
    "apt/trusted.gpg.d",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ssl/cert.pem",
    "ca-certificates/extracted",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "crypto-policies",
    "localtime",
    "os-release",
    "debian_version",
    "bash.bashrc",
    "inputrc",
    "manpath.config",
    "mime.types",
    "protocols",
    "services",
    "terminfo",
)


@dataclass(frozen=True)
class HostSystem:
    """What of the host's system the sandbox shows, read once."""

    links: tuple[tuple[str, str], ...]
    """(target, path) of links to make: ``("usr/bin", "/bin")`` on a merged-usr host."""
    folders: tuple[str, ...]
    """Real top folders to bind: ``/usr``, and ``/bin``, … where they are no links."""
    etc: tuple[str, ...]
    has_bundle: bool = False
    """``SYSTEM_BUNDLE`` is a file of its own, so that another can lie over it."""
    apt: tuple[tuple[str, str], ...] = ()
    """(path, text) of files that say where this system's packages come from."""

    @classmethod
    def read(cls, root: Path = Path("/")) -> HostSystem:
        links, folders, etc = [], ["/usr"], []
        for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
            path = root / name
            if path.is_symlink():
                links.append((os.readlink(path), f"/{name}"))
            elif path.is_dir():
                folders.append(f"/{name}")
        for name in _ETC:
            path = root / "etc" / name
            target = os.readlink(path) if path.is_symlink() else ""
            if target.startswith(("/usr/", "../usr/")):
                links.append((target, f"/etc/{name}"))
            elif path.exists():
                etc.append(f"/etc/{name}")
        if (root / apt_sources.INSTALLED).is_file():
            etc.append(f"/{apt_sources.INSTALLED}")
        bundle = root / SYSTEM_BUNDLE.removeprefix("/")
        has_bundle = "/etc/ssl/certs" in etc and not bundle.parent.is_symlink() and bundle.is_file()
        apt = tuple(apt_sources.read(root).items())
        return cls(tuple(links), tuple(folders), tuple(etc), has_bundle and not bundle.is_symlink(), apt)


@dataclass(frozen=True)
class Sandbox:
    """Paths are as bubblewrap will see them (staged, where the caller drops to another uid)."""

    workspace: str
    home: str
    guest: str
    etc: str
    """A folder that holds all that is ``/etc`` inside."""
    python: HostPython
    python_prefix: str
    """Where ``python.prefix`` is; unused if that is None."""
    system: HostSystem
    tmp_bytes: int
    processes: int
    environment: Mapping[str, str] = field(default_factory=dict)
    egress_socket: str | None = None
    trust_bundle: str | None = None
    merged: tuple[tuple[str, str], ...] = ()
    """(path, folder) of workspaces seen under ``/workspace/merged``."""
    program: str = "__main__.py"
    """What to run of the guest's folder."""
    code: str | None = None
    """Python to run in place of the guest agent (the probe's)."""


@dataclass(frozen=True)
class Options:
    args: tuple[str, ...]
    """For ``--args``."""
    command: tuple[str, ...]
    data: tuple[bytes, ...]
    """What the descriptors from ``FIRST_DATA_FD`` on must hold."""


def build(sandbox: Sandbox) -> Options:
    files = list(PROGRAMS.items())
    args = [
        *_isolation(),
        *_system(sandbox),
        *_python(sandbox),
        *_files(files),
        *_volume(sandbox),
        *_private(sandbox.tmp_bytes),
        *_environment(sandbox.environment),
        "--chdir",
        WORKSPACE,
        # Last: what was made above lies on this file system.
        "--remount-ro",
        "/",
    ]
    # By its path, never by a name: PATH begins in the volume, where anybody may have put a program of that name.
    python = [f"{BIN}/{GUEST_NAME}", "-I", "-S", "-B"]
    command = (
        [*python, "-c", sandbox.code, str(GUEST_FD)]
        if sandbox.code is not None
        else [*python, f"{GUEST}/{sandbox.program}", "--fd", str(GUEST_FD), "--processes", str(sandbox.processes)]
    )
    return Options(tuple(args), tuple(command), tuple(text.encode() for _, text in files))


def _isolation() -> list[str]:
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"),
        *("--disable-userns", "--uid", str(UID), "--gid", str(UID), "--hostname", "nightporter"),
        # Without --as-pid-1 bubblewrap stays as PID 1, and its environment and memory can be read from inside.
        *("--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--info-fd", str(INFO_FD), "--seccomp", str(SECCOMP_FD)),
    ]


def _system(sandbox: Sandbox) -> list[str]:
    system, args = sandbox.system, ["--ro-bind", sandbox.etc, "/etc"]
    for path in (*system.folders, *system.etc):
        if not path.startswith("/etc/"):
            args += ["--ro-bind", path, path]
    for target, path in system.links:
        if not path.startswith("/etc/"):
            args += ["--symlink", target, path]
    return args


def _python(sandbox: Sandbox) -> list[str]:
    python, args = sandbox.python, []
    if python.prefix is not None:
        for part in python.parts:
            args += ["--ro-bind", f"{sandbox.python_prefix}/{part}", f"{INSIDE}/{part}"]
        for target, name in python.links:
            args += ["--symlink", target, f"{INSIDE}/{name}"]
        if _may_be_named_inside(python.prefix):
            # Prefixes compiled in, and libpython's run path, are absolute in some builds (pyenv's, for one).
            args += ["--symlink", INSIDE, str(python.prefix)]
    for name in ("python3", GUEST_NAME):
        args += ["--symlink", python.executable_inside, f"{BIN}/{name}"]
    return [*args, "--ro-bind", sandbox.guest, GUEST]


def _may_be_named_inside(prefix: Path) -> bool:
    """Whether a link at the interpreter's host path collides with nothing the sandbox has there."""
    taken = ("/workspace", HOME, "/tmp", "/proc", "/dev", "/etc", "/opt/nightporter")
    return not any(Path(path) == prefix or Path(path) in prefix.parents for path in taken)


def _files(files: list[tuple[str, str]]) -> list[str]:
    args = []
    for index, (path, _) in enumerate(files):
        args += ["--perms", "0755", "--file", str(FIRST_DATA_FD + index), path]
    return args


def _volume(sandbox: Sandbox) -> list[str]:
    # bubblewrap mounts every bind nosuid and nodev.
    args = ["--bind", sandbox.workspace, WORKSPACE, "--bind", sandbox.home, HOME]
    for path, folder in sandbox.merged:
        args += ["--bind", path, f"{WORKSPACE}/merged/{folder}"]
    if sandbox.egress_socket is not None:
        args += ["--ro-bind", sandbox.egress_socket, EGRESS_SOCKET]
    if sandbox.trust_bundle is not None:
        args += ["--ro-bind", sandbox.trust_bundle, TRUST_BUNDLE]
        if sandbox.system.has_bundle:
            args += ["--ro-bind", sandbox.trust_bundle, SYSTEM_BUNDLE]
    return args


def _private(tmp_bytes: int) -> list[str]:
    return [
        *("--proc", "/proc", "--dev", "/dev"),
        # Bounded, where bubblewrap's own /dev is half of the host's memory.
        *("--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", "/tmp"),
        *("--dir", "/run", "--dir", "/var", "--symlink", "/tmp", "/var/tmp", "--symlink", "/run", "/var/run"),
    ]


def _environment(extra: Mapping[str, str]) -> list[str]:
    environment = {
        "PATH": PATH,
        "HOME": HOME,
        "USER": "porter",
        "LOGNAME": "porter",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TMPDIR": "/tmp",
        **extra,
    }
    args = ["--clearenv"]
    for name, value in environment.items():
        args += ["--setenv", name, value]
    return args
