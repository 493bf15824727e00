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


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="the attacks run as an ordinary user already")
def test_attacks_as_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    python = _python()
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
        options = ["-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", "-rs", "--tb=short"]
        run = subprocess.run(
            [python, "-B", "-m", "pytest", *_chosen(folder), *options, f"--basetemp={folder}/tmp"],
            cwd=folder,
            user=UID,
            group=UID,
            extra_groups=[],
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
        if "No module named" in run.stderr:
            pytest.skip(f"the test's packages do not load in {python}: {run.stderr[-200:]}")
        print(run.stdout[-2000:])
        assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
        assert " passed" in run.stdout
    finally:
        shutil.rmtree(folder)


def _chosen(folder: Path) -> list[str]:
    files = [*(folder / "tests/attacks").glob("test_*.py"), *(folder / "tests/sandbox_runner").rglob("test_*.py")]
    attacks = [path for path in files if any(word in path.read_text() for word in SANDBOXED)]
    return sorted(str(path.relative_to(folder)) for path in attacks if path.name != Path(__file__).name)


def _python() -> str:
    """An interpreter of this version that user ``UID`` can run, or skip."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            subprocess.run(
                [candidate, "-c", ""], user=UID, group=UID, extra_groups=[], check=True, capture_output=True, env={}
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    pytest.skip(f"no {version} here that an ordinary user may run")
