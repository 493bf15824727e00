"""The token: made once, for this user alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nightporter.errors import ConfigurationError
from nightporter.settings import Settings
from nightporter.token import ensure_token, read_token


def test_it_is_made_once_and_private(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path)
    assert read_token(settings) is None
    token = ensure_token(settings)
    assert len(token) >= 32
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert ensure_token(settings) == token
    assert [p.name for p in tmp_path.iterdir()] == ["token"]


def test_two_first_starts_at_once_agree(tmp_path: Path) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(ensure_token(Settings.at(tmp_path)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1


@pytest.mark.parametrize(("content", "mode", "said"), [("", 0o600, "is empty"), ("t", 0o644, "chmod 600")])
def test_a_token_that_protects_nothing_is_refused(tmp_path: Path, content: str, mode: int, said: str) -> None:
    (tmp_path / "token").write_text(content)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(ConfigurationError, match=said):
        ensure_token(Settings.at(tmp_path))


def test_a_token_from_the_settings_is_not_written(tmp_path: Path) -> None:
    assert ensure_token(Settings.at(tmp_path, {"http": {"token": "mine"}})) == "mine"
    assert list(tmp_path.iterdir()) == []
