"""What files for Compose and Kubernetes say of our own services, in one form, and what is asked of each of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from typer.core import TyperGroup

from nightporter.cli.app import app
from nightporter.settings import Settings, load

ROOT = Path(__file__).parents[2]
IMAGE_USER = 10001


@dataclass(frozen=True)
class Service:
    """A container of our image. ``secrets``: path of each file that is mounted, and its name in ``deploy/secrets``."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    secrets: Mapping[str, str]

    def settings(self, folder: Path) -> Settings:
        """As the service itself would read them, with secrets that ``deploy/make-secrets`` made in ``folder``."""
        environment = {"NIGHTPORTER_HOME": str(folder / "home")}
        for variable, value in self.environment.items():
            if variable.endswith("_FILE"):
                value = str(folder / self.secrets[value])
            if variable != "NIGHTPORTER_HOME":
                environment[variable] = value
        return load(environment)


def make_secrets(folder: Path) -> dict[str, str]:
    """Run the script; what it made, by name."""
    subprocess.run([ROOT / "deploy/make-secrets", folder], check=True, capture_output=True)
    return {path.name: path.read_text() for path in folder.iterdir()}


def parse(words: Sequence[str]) -> None:
    """Raises TyperException for what the real command line would refuse."""
    assert words[0] == "nightporter", words
    command = typer.main.get_command(app)
    context = command.make_context("nightporter", list(words[1:]))
    while isinstance(command, TyperGroup) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command = found
        context = command.make_context(name, rest, parent=context)
    assert not context.args, words
