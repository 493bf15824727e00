"""Why bubblewrap does not work on a machine, and what a person can do about it."""

from __future__ import annotations

import os
from pathlib import Path

_CONTAINER = (
    "This is a container: start it with `--security-opt seccomp=deploy/seccomp-bubblewrap.json --security-opt "
    "apparmor=unconfined --security-opt systempaths=unconfined`, or run Nightporter on the host."
)

_POD = (
    "This is a pod: it needs `hostUsers: false`, `procMount: Unmasked` and this project's seccomp profile on its node; "
    "`deploy/kubernetes/base/runner.yaml` has them all, and docs/how-to/deploy.md says how."
)

_SYSCTLS = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps unprivileged programs from user namespaces. Run "
        "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or install an AppArmor profile with "
        "`userns,` for {bwrap}.",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "User namespaces are off. Run `sudo sysctl -w kernel.unprivileged_userns_clone=1`.",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "User namespaces are off. Run `sudo sysctl -w user.max_user_namespaces=15000`.",
    ),
)


def remedy(bwrap: Path, output: str, root: Path = Path("/")) -> str:
    """The likeliest remedy, from the machine's settings and from what bubblewrap said."""
    found = []
    for name, bad, words in _SYSCTLS:
        try:
            value = (root / "proc/sys" / name).read_text().strip()
        except OSError:
            continue
        if value == bad:
            found.append(words.format(bwrap=bwrap))
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        found.append(_POD)
    elif in_container(root):
        found.append(_CONTAINER)
    if not found and "No space left" in output:
        found.append("The limit of user namespaces is reached: raise `sysctl user.max_user_namespaces`.")
    return " ".join(found) or (
        "Check that unprivileged user namespaces work: `unshare --user --map-root-user --mount-proc --pid --fork true`."
    )


def in_container(root: Path = Path("/")) -> bool:
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()
