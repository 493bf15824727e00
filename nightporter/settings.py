"""The settings, assembled from the sections of each package, and read from file and environment.

``$NIGHTPORTER_HOME/nightporter.toml`` first, then environment variables ``NIGHTPORTER_<SECTION>__<KEY>`` over it.
Whatever is unknown or wrong is an error that names its place and the remedy. Read here rather than by
pydantic-settings: an error has to say which file or variable a value came from, a misspelt variable must not be
ignored, and its import alone would take a third of the time that ``nightporter status`` may take.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from agent.settings import AgentSettings, EngineSettings, McpSettings, MemorySettings
from gateway.settings import EmailSettings, HookSettings, HttpSettings, SlackSettings, TelegramSettings
from identity.settings import AccessSettings, IdentitySettings
from nightporter import texts
from nightporter.errors import ConfigurationError
from router.settings import FilesSettings, HeartbeatSettings, RouterSettings, RunnerSettings, SchedulesSettings
from sandbox_runner.egress.settings import EgressSettings
from sandbox_runner.settings import SandboxSettings
from workspace_store import crash_points
from workspace_store.section import Section, SettingsPath, url_of
from workspace_store.settings import StorageSettings
from workspace_store.storage import Storage

PREFIX = "NIGHTPORTER_"
FILE_NAME = "nightporter.toml"

HookName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Settings(Section):
    """Everything that can be set."""

    home: Path
    """Folder of settings, database, volumes and sockets; set by `NIGHTPORTER_HOME` only."""
    database_url: Annotated[str, Field(repr=False), AfterValidator(url_of("sqlite", "postgresql"))] = ""
    """Where everything that lasts is written down; `sqlite:///<home>/nightporter.db` when empty."""
    database_url_file: SettingsPath = None
    """File that holds `database_url`."""
    redis_url: Annotated[str, Field(repr=False), AfterValidator(url_of("redis", "rediss", "unix"))] = ""
    """Redis or Valkey of one's own; when empty, `up` starts one of its own."""
    redis_url_file: SettingsPath = None
    """File that holds `redis_url`."""
    volumes_url: Annotated[str, Field(repr=False), AfterValidator(url_of("file", "s3"))] = ""
    """Where volumes are kept; `file://<home>/volumes` when empty, `s3://BUCKET/PREFIX` for an object store."""
    storage: StorageSettings = StorageSettings()
    http: HttpSettings = HttpSettings()
    hooks: dict[HookName, HookSettings] = Field(default_factory=dict)
    slack: SlackSettings = SlackSettings()
    telegram: TelegramSettings = TelegramSettings()
    email: EmailSettings = EmailSettings()
    identity: IdentitySettings = IdentitySettings()
    access: AccessSettings = AccessSettings()
    agent: AgentSettings = AgentSettings()
    engine: EngineSettings = EngineSettings()
    memory: MemorySettings = MemorySettings()
    mcp: McpSettings = McpSettings()
    sandbox: SandboxSettings = SandboxSettings()
    egress: EgressSettings = EgressSettings()
    files: FilesSettings = FilesSettings()
    router: RouterSettings = RouterSettings()
    runner: RunnerSettings = Field(default_factory=RunnerSettings)
    schedules: SchedulesSettings = Field(default_factory=SchedulesSettings)
    heartbeat: HeartbeatSettings = HeartbeatSettings()

    @property
    def kept_in(self) -> Storage:
        """Where volumes and blobs are."""
        return Storage(self.home, self.volumes_url, self.storage)

    @classmethod
    def at(cls, home: Path, values: Mapping[str, Any] | None = None) -> Settings:
        """The settings of one home, with the defaults that depend on it filled in."""
        data: dict[str, Any] = dict(values or {})
        data["home"] = home
        if data.get("database_url", "") == "" and not data.get("database_url_file"):
            data["database_url"] = f"sqlite:///{home}/nightporter.db"
        if data.get("volumes_url", "") == "":
            data["volumes_url"] = f"file://{home}/volumes"
        return cls.model_validate(data, context={"home": home})


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
TABLES: dict[str, type[Section]] = {"hooks": HookSettings}
"""Sections of which there are as many as somebody names: ``[hooks.NAME]``."""
TOP_LEVEL = tuple(name for name in Settings.model_fields if name not in (*SECTIONS, *TABLES, "home"))


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings of ``$NIGHTPORTER_HOME``; ``ConfigurationError`` holds one sentence for each thing wrong."""
    environment = os.environ if environment is None else environment
    home = home_of(environment)
    path = home / FILE_NAME
    values = _read_file(path)
    origins: dict[tuple[str, ...], str] = {}
    wrong = _overlay(values, environment, origins)
    try:
        settings = Settings.at(home, values)
    except ValidationError as error:
        wrong += [_sentence(detail, path, origins) for detail in error.errors(include_url=False)]
    if wrong:
        raise ConfigurationError(*wrong)
    return settings


def home_of(environment: Mapping[str, str]) -> Path:
    """The home that the environment names, absolute; it need not exist yet."""
    named = environment.get(f"{PREFIX}HOME", "")
    try:
        home = Path(named or "~/.nightporter").expanduser()
    except RuntimeError as error:
        raise ConfigurationError(texts.no_home_folder()) from error
    home = Path(os.path.abspath(home))
    if home.exists() and not home.is_dir():
        raise ConfigurationError(texts.home_is_not_a_folder(home))
    return home


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(texts.file_unreadable(path, reason or str(error))) from error
    except RecursionError as error:
        raise ConfigurationError(texts.file_not_toml(path, "its brackets are nested too deeply")) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(texts.file_not_toml(path, str(error))) from error
    if "home" in values:
        raise ConfigurationError(texts.home_in_file(path))
    return values


def _overlay(values: dict[str, Any], environment: Mapping[str, str], origins: dict[tuple[str, ...], str]) -> list[str]:
    """Put the environment's values over the file's; what is unknown comes back as sentences."""
    wrong: list[str] = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in (f"{PREFIX}HOME", crash_points.VARIABLE):
            continue
        *section, key = variable.removeprefix(PREFIX).lower().split("__")
        target: Any = values
        model: type[BaseModel] = Settings
        if section:
            if len(section) == 2 and section[0] in TABLES:
                model = TABLES[section[0]]
                tables = values.setdefault(section[0], {})
                target = tables.setdefault(section[1], {}) if isinstance(tables, dict) else None
            elif len(section) == 1 and section[0] in SECTIONS:
                model = SECTIONS[section[0]]
                target = values.setdefault(section[0], {})
            else:
                wrong.append(texts.unknown_variable(variable, _near_variable(variable)))
                continue
        if key not in model.model_fields or (model is Settings and key not in TOP_LEVEL):
            wrong.append(texts.unknown_variable(variable, _near_variable(variable)))
            continue
        if isinstance(target, dict):
            target.pop(key.removesuffix("_file") if key.endswith("_file") else f"{key}_file", None)
            target[key] = _structured(model, key, environment[variable])
            origins[(*section, key)] = variable
    return wrong


def _structured(model: type[BaseModel], key: str, text: str) -> object:
    """A list from the environment: JSON, or words between commas; a table: JSON; anything else stays text."""
    annotation = model.model_fields[key].annotation
    if getattr(annotation, "__origin__", None) is dict:
        return _json(text) if text else {}
    if getattr(annotation, "__origin__", None) is not tuple:
        return None if text == "" and type(None) in get_args(annotation) else text
    if text.lstrip().startswith(("[", "{")):
        return _json(text)
    return [word.strip() for word in text.split(",") if word.strip()]


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def variables() -> dict[str, tuple[str, ...]]:
    """Every environment variable that sets something, with the path of the setting."""
    named: dict[str, tuple[str, ...]] = {f"{PREFIX}{name.upper()}": (name,) for name in TOP_LEVEL}
    for section, model in SECTIONS.items():
        for key in model.model_fields:
            named[f"{PREFIX}{section.upper()}__{key.upper()}"] = (section, key)
    return named


def _near_variable(variable: str) -> str | None:
    known = [name.removeprefix(PREFIX) for name in (*variables(), f"{PREFIX}HOME")]
    found = difflib.get_close_matches(variable.upper().removeprefix(PREFIX), known, 1, 0.7)
    return f"{PREFIX}{found[0]}" if found else None


def _near_key(loc: tuple[str, ...]) -> str | None:
    names = [".".join(path) for path in variables().values()] + list(SECTIONS)
    wanted = ".".join(loc)
    same_section = [n for n in names if n.startswith(f"{loc[0]}.")] if len(loc) > 1 and loc[0] in SECTIONS else names
    found = difflib.get_close_matches(wanted, same_section, 1, 0.7) or [n for n in names if n.endswith(f".{loc[-1]}")]
    return found[0] if found else None


def _sentence(detail: Any, path: Path, origins: Mapping[tuple[str, ...], str]) -> str:
    loc = tuple(str(part) for part in detail["loc"])
    variable = next((origins[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in origins), None)
    if detail["type"] == "extra_forbidden":
        return texts.unknown_key(".".join(loc), path, _near_key(loc))
    reason = texts.not_a_table(loc[-1]) if detail["type"] == "model_type" else texts.reason(detail["msg"])
    return texts.bad_value(".".join(loc), reason, variable or str(path))
