"""The owner's bearer token: made once into ``<home>/token``, readable by this user alone, never printed."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from nightporter import texts
from nightporter.errors import ConfigurationError
from nightporter.settings import Settings


def token_path(home: Path) -> Path:
    """Where the token is kept when ``http.token`` is not set."""
    return home / "token"


def read_token(settings: Settings) -> str | None:
    """The owner's token, or None when it has not been made yet."""
    if settings.http.token:
        return settings.http.token
    path = token_path(settings.home)
    try:
        token = path.read_text("utf-8").strip()
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(texts.token_unreadable(path, str(error))) from error
    if not token:
        raise ConfigurationError(texts.token_empty(path))
    if mode & 0o077:
        raise ConfigurationError(texts.token_readable_by_others(path))
    return token


def ensure_token(settings: Settings) -> str:
    """The owner's token, made now if it does not exist; of two that make it at once both get the same."""
    token = read_token(settings)
    if token is not None:
        return token
    path = token_path(settings.home)
    draft = path.with_name(f".token-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # refuses to replace a token that another process made meanwhile
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    except OSError as error:
        raise ConfigurationError(texts.token_unwritable(path, error.strerror or str(error))) from error
    token = read_token(settings)
    assert token is not None
    return token
