"""``environment.json`` as the host reads it: written inside, so that every word of it is checked before it is shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workspace_store.beneath import UnsafePath
from workspace_store.packs import VolumeError
from workspace_store.volumes import Volume

ENVIRONMENT_FILE = "home/.nightporter/environment.json"
_BYTES = 512 << 10

_Word = Annotated[str, Field(max_length=200)]
_Line = Annotated[str, Field(max_length=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class Base(_Part):
    """The read-only system that everything was installed on."""

    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    system: _Word = ""
    machine: _Word = ""
    glibc: _Word = ""
    python: Annotated[dict[_Word, _Word], Field(max_length=20)] = {}
    node: _Word = ""
    packages: _Word = ""
    image: _Word = ""


class Place(_Part):
    """Packages of one Python: the user's, or a virtual environment's."""

    kind: Literal["user", "venv"]
    where: _Line
    python: _Word
    pip: bool = True
    system_packages: bool = False
    packages: Annotated[list[_Line], Field(max_length=5000)] = []


class AptPackage(_Part):
    package: _Word
    version: _Word
    architecture: _Word = "all"
    asked: bool = True


class Rebuilt(_Part):
    """What the last change of the base broke."""

    done: Annotated[list[_Line], Field(max_length=1000)] = []
    failed: Annotated[list[_Line], Field(max_length=1000)] = []


class Environment(_Part):
    version: Literal[1]
    base: Base
    python: Annotated[list[Place], Field(max_length=1000)] = []
    npm: Annotated[list[_Word], Field(max_length=5000)] = []
    apt: Annotated[list[AptPackage], Field(max_length=5000)] = []
    uv: Annotated[list[_Word], Field(max_length=5000)] = []
    cargo: Annotated[list[_Word], Field(max_length=5000)] = []
    not_kept: Annotated[list[_Line], Field(max_length=5000)] = []
    rebuilt: Rebuilt | None = None


class Unreadable(Exception):
    """The text says why."""


def read(volume: Volume) -> Environment | None:
    """None: nothing was installed yet. Raises Unreadable."""
    try:
        return Environment.model_validate_json(volume.read_file(ENVIRONMENT_FILE, max_bytes=_BYTES))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Unreadable(f"{'.'.join(map(str, first['loc']))[:100]}: {first['msg'][:200]}") from None
    except (UnsafePath, VolumeError, OSError, ValueError) as error:
        raise Unreadable(str(error)) from error
