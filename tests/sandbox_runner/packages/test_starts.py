"""Both programs of the guest start without a warning in any Python that a sandbox may have: what one prints is read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sandbox_runner.guest

GUEST = Path(sandbox_runner.guest.__file__).parent
STRICT = [sys.executable, "-W", "error", "-I", "-S", "-B"]


def test_the_survey_prints_its_answer_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [*STRICT, GUEST / "packages", "survey", tmp_path], capture_output=True, env={"HOME": str(tmp_path)}, check=True
    )
    assert isinstance(json.loads(done.stdout), dict)
    assert done.stderr == b""


@pytest.mark.parametrize("program", ["__main__.py", "packages"])
def test_what_is_wrongly_called_is_said_and_no_more(program: str) -> None:
    done = subprocess.run([*STRICT, GUEST / program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Warning" not in done.stderr
