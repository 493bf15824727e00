"""Checks of the machine: Python, the home, the token, the ports."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator

from nightporter import home
from nightporter.doctor.check import Finding
from nightporter.errors import ConfigurationError
from nightporter.listening import listen
from nightporter.settings import FILE_NAME, Settings
from nightporter.token import read_token
from workspace_store.section import Address

OLDEST_PYTHON = (3, 11)


def python() -> Finding:
    """The interpreter's version."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", f"Python {version} is too old.", "Install Python 3.11 or newer.")
    return Finding("python", "ok", f"Python {version}.")


def home_folder(settings: Settings) -> Iterator[Finding]:
    """Whether the home can be used, and by this user alone."""
    folder = settings.home
    if not folder.exists():
        yield Finding("home", "ok", f"{folder} will be made at the first start.")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding("home", "fail", f"{folder} cannot be written.", "Correct its rights, or set NIGHTPORTER_HOME.")
        return
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        yield Finding("home", "warn", f"Other users can look into {folder}.", f"Run: chmod 700 {folder}")
    else:
        yield Finding("home", "ok", f"{folder} is writable, and private.")
    file = folder / FILE_NAME
    if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077 and _holds_secrets(settings):
        yield Finding("settings file", "warn", f"Other users can read the secrets in {file}.", f"Run: chmod 600 {file}")


def _holds_secrets(settings: Settings) -> bool:
    secrets = (settings.http.token, settings.slack.bot_token, settings.telegram.token, settings.engine.api_key)
    return any((*secrets, settings.email.relay, settings.email.imap_url, settings.slack.app_token))


def token(settings: Settings) -> Finding:
    """The owner's token."""
    try:
        found = read_token(settings)
    except ConfigurationError as error:
        return Finding("token", "fail", str(error), "")
    return Finding("token", "ok", "It is there." if found else "It will be made at the first start.")


def _served(setting: str, wanted: Address, served: str) -> Finding:
    if wanted.port == 0 or str(wanted) == served:
        return Finding(setting, "ok", f"{served} is served by this home's own process.")
    sentence = f"This home's own process serves {served}, and the settings here say {wanted}."
    return Finding(setting, "warn", sentence, "It was started with another environment; set the same one here.")


def ports(settings: Settings) -> Iterator[Finding]:
    """Whether what is to be listened on is free, or held by this home's own ``up``."""
    running = home.is_up(settings.home) is not None
    served = home.read_listening(settings.home) if running else {}
    wanted = (("http.listen", "http", settings.http.listen), ("email.listen", "smtp", settings.email.listen))
    for setting, name, address in wanted:
        if name in served:
            yield _served(setting, address, served[name])
            continue
        try:
            listen(setting, address).close()
        except ConfigurationError as error:
            yield Finding(setting, "fail", str(error), "")
        else:
            yield Finding(setting, "ok", f"{address} is free.")
