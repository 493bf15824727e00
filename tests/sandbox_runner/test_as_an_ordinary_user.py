"""The attacks once more, as an ordinary user: root's sandboxes and a user's are set up differently."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UID = 4242
REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("nightporter", "gateway", "router", "sandbox_runner", "agent", "identity", "workspace_store")
# Only these depend on who runs the sandbox; names of what they ask for, in their sources.
SANDBOXED = ("BubblewrapBackend", "inside: Shell")

# `env` is what has no capability left when it looks for the program: `setpriv` itself finds one anywhere.
NO_CONTAINERS = "not TestDocker and not TestPodman and not TestGvisor and not nested"
AS_USER = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "env")
# In a mount namespace of its own: an empty folder over the closed one, and in it what was asked for.
SHOW_ALONE = """
while [ "$1" != -- ]; do
    exec 3<"$2"
    mount -t tmpfs -o mode=755 none "$1"
    mkdir -p "$2"
    mount --no-canonicalize --bind /proc/self/fd/3 "$2"
    exec 3<&-
    shift 2
done
shift
exec "$@"
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the attacks run as an ordinary user already")
def test_attacks_as_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    reaching = _reaching()
    packages = next(path for path in map(Path, sys.path) if (path / "pytest").is_dir())
    folder = Path("/var/tmp") / f"nightporter-test-{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        for name in (*PACKAGES, "tests", "pyproject.toml"):
            source, target = REPOSITORY / name, folder / name
            target.parent.mkdir(exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, UID, UID, follow_symlinks=False)
        options = ["-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", "-k", NO_CONTAINERS, "--tb=short"]
        words = [sys.executable, "-B", "-m", "pytest", *_chosen(folder), *options, f"--basetemp={folder}/tmp"]
        run = subprocess.run(
            [*reaching, *AS_USER, *words],
            cwd=folder,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(folder),
                "PYTHONPATH": f"{folder}:{packages}",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
            timeout=600,
        )
        print(run.stdout[-2000:])
        assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
        assert " passed" in run.stdout
    finally:
        shutil.rmtree(folder)


def _chosen(folder: Path) -> list[str]:
    files = [*(folder / "tests/attacks").glob("test_*.py"), *(folder / "tests/sandbox_runner").rglob("test_*.py")]
    attacks = [path for path in files if any(word in path.read_text() for word in SANDBOXED)]
    return sorted(str(path.relative_to(folder)) for path in attacks if path.name != Path(__file__).name)


def _reaching() -> list[str]:
    """Nothing, where this Python is for everybody; else a command that shows it alone of a folder that is root's."""
    for attempt in ([], ["unshare", "--mount", "sh", "-euc", SHOW_ALONE, "show", *_homes_of_python()]):
        try:
            subprocess.run([*attempt, *AS_USER, sys.executable, "-c", ""], check=True, capture_output=True, cwd="/")
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"").decode()[-200:]
        else:
            return attempt
    pytest.skip(f"an ordinary user cannot run this Python: {said}")


def _homes_of_python() -> list[str]:
    """Of each that is below a closed folder: that folder, and itself."""
    found = []
    for home in dict.fromkeys(os.path.realpath(prefix) for prefix in (sys.base_prefix, sys.prefix)):
        above = [path for path in reversed(Path(home).parents) if not path.stat().st_mode & 0o001]
        found += [str(above[0]), home] if above else []
    return [*found, "--"]
