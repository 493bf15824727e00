"""What is shipped: pins without addresses, and an image of everything that runs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from nightporter.settings import variables

ROOT = Path(__file__).parents[2]
PINS = ("requirements.txt", "requirements-dev.txt")


@pytest.mark.parametrize("name", PINS)
def test_every_pin_is_exact_and_hashed(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = [e for e in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE) if e and not e.startswith("#")]
    assert len(entries) > 30
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==[^\s=]+ \\\n", entry), entry[:60]
        assert "--hash=sha256:" in entry


@pytest.mark.parametrize("name", PINS)
def test_pins_name_no_registry_and_no_path(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "index" not in text
    assert "/" not in re.sub(r"#.*", "", text)


def test_both_files_pin_the_same() -> None:
    pins, all_pins = ({line for line in (ROOT / name).read_text().splitlines() if "==" in line} for name in PINS)
    assert pins <= all_pins


def test_the_image_is_not_root_and_holds_every_package() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert lines[0] == "FROM python:3.12-slim"
    assert lines.index("USER nightporter") < next(n for n, line in enumerate(lines) if line.startswith("CMD"))
    sent = (ROOT / ".dockerignore").read_text().split()
    for package in ("agent", "gateway", "identity", "nightporter", "router", "sandbox_runner", "workspace_store"):
        assert f"!{package}" in sent
    for source in sent[1:]:
        if source.startswith("!"):
            assert (ROOT / source[1:]).exists(), source
    settable = {*variables(), "NIGHTPORTER_HOME"}
    assert set(re.findall(r"\bNIGHTPORTER_\w+", (ROOT / "Dockerfile").read_text())) <= settable


def test_make_takes_a_python_that_really_runs(tmp_path: Path) -> None:
    """A version manager's stand-in may be first on the path and fail."""
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    broken.chmod(0o755)
    shown = subprocess.run(
        [
            "make",
            "--no-print-directory",
            "--eval",
            "shown: ; @echo $(PYTHON)",
            "shown",
            "CANDIDATES=python3.12 python3",
        ],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() in ("python3", "")


def test_make_says_so_when_there_is_no_python(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["make", "install", "CANDIDATES=no-such-python", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},  # without MAKEFLAGS: this test may itself run below make
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("No Python >= 3.11 with venv was found (tried: no-such-python).")
