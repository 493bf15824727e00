"""What every section of the settings shares: the base model, addresses, URLs, paths and secrets from files.

Each package owns its own section; this module only says how a value is read and when it is refused. A refusal is
a ``ValueError`` of one sentence that ends with an example, since a person reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)


@dataclass(frozen=True)
class Address:
    """A host and a port to listen on or to connect to; port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port`` or ``[v6]:port``; ``ValueError`` says what is wrong."""
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError(f"{text!r} is not host:port; write for example 127.0.0.1:8787")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _address(value: object) -> object:
    return Address.parse(value) if isinstance(value, str) else value


def _no_address(value: object) -> object:
    return None if value == "" else _address(value)


HostPort = Annotated[Address, BeforeValidator(_address), PlainSerializer(str, return_type=str)]
OptionalHostPort = Annotated[Address | None, BeforeValidator(_no_address)]


def url_of(*schemes: str) -> Callable[[str], str]:
    """A validator of URLs with one of these schemes; the empty text, which means "not set", passes."""

    def check(value: str) -> str:
        if not value:
            return value
        wanted = " or ".join(f"{scheme}://" for scheme in schemes)
        try:
            parts = urlsplit(value)
            _ = parts.port
        except ValueError as error:
            raise ValueError(f"it is not a URL ({error}); it has to start with {wanted}") from error
        if parts.scheme.partition("+")[0] not in schemes or not (parts.netloc or parts.path.strip("/")):
            raise ValueError(f"it is not a URL of the right kind; it has to start with {wanted}")
        return value

    return check


WebUrl = Annotated[str, AfterValidator(url_of("https", "http"))]


def _path(value: Path | None, info: ValidationInfo) -> Path | None:
    if value is None:
        return None
    home = (info.context or {}).get("home", Path())
    try:
        return Path(home) / value.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value} names the home of nobody known here; write the whole path") from error


def _no_path(value: object) -> object:
    return None if value == "" else value


SettingsPath = Annotated[Path | None, BeforeValidator(_no_path), AfterValidator(_path)]
"""A path in the settings: ``~`` is expanded, and what is relative is relative to the home."""

Secret = Annotated[str, Field(repr=False)]
"""A value that no ``repr`` and no log shows."""

MOST = 10**12
"""Of a whole number: so many MB are still a count of bytes that fits wherever such are kept."""
MOST_TIME = 10**8
"""Of any other number, which is mostly a time: what the calendar and the agent of a sandbox can still reckon with."""


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"has to be a number, and is {str(value).lower()}")
    return value


Finite = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
PositiveInt = Annotated[int, BeforeValidator(_number), Field(gt=0, le=MOST)]
PositiveFloat = Annotated[Finite, Field(gt=0, le=MOST_TIME)]
CountOrZero = Annotated[int, BeforeValidator(_number), Field(ge=0, le=MOST)]
SecondsOrZero = Annotated[Finite, Field(ge=0, le=MOST_TIME)]


class Section(BaseModel):
    """A group of settings: frozen, closed to unknown keys; ``<key>_file`` is read for each secret that has one."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        read = dict(data)
        for key, value in data.items():
            if isinstance(value, str) and "\0" in value:
                raise ValueError(f"{key} holds a NUL character; write it anew")
            secret = str(key).removesuffix("_file")
            if key == secret or secret not in cls.model_fields or not value:
                continue
            if data.get(secret):
                raise ValueError(f"both {secret} and {key} are set; keep one of them")
            read[secret] = _read_secret(key, Path(str(value)), info)
        return read


def _read_secret(key: str, value: Path, info: ValidationInfo) -> str:
    path = _path(value, info)
    assert path is not None
    try:
        secret = path.read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(
            f"{key} names {path}, which cannot be read ({error.strerror}); correct the path or its rights"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{key} names {path}, which is not text; put the secret alone into it") from error
    if not secret:
        raise ValueError(f"{key} names {path}, which is empty; put the secret alone into it")
    return secret
