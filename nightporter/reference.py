"""The reference pages that are made from code, so that nothing can be set or typed that is not documented.

``python -m nightporter.reference`` writes them into ``docs/reference``; a test compares them with what is there.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from agent.settings import McpServer
from nightporter import texts
from nightporter.settings import PREFIX, SECTIONS, TABLES, TOP_LEVEL, Settings, variables
from workspace_store.section import Address, Section


def descriptions(model: type[Section]) -> dict[str, str]:
    """The line under each field of a section, read from its source."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for field, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            name = field.target.id
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                found[name] = str(following.value.value)
    return found


def settings_page() -> str:
    """``docs/reference/settings.md``."""
    of_variable = {path: variable for variable, path in variables().items()}
    lines = [texts.SETTINGS_INTRODUCTION]
    groups: list[tuple[str | None, type[Section], tuple[str, ...]]] = [(None, Settings, TOP_LEVEL)]
    groups += [(section, model, tuple(model.model_fields)) for section, model in SECTIONS.items()]
    for table, model in TABLES.items():
        groups.append((f"{table}.NAME", model, tuple(model.model_fields)))
        before = f"{PREFIX}{table.upper()}__NAME__"
        of_variable |= {(f"{table}.NAME", key): f"{before}{key.upper()}" for key in model.model_fields}
    groups.append(("mcp.servers.NAME", McpServer, tuple(McpServer.model_fields)))
    within = f"in `{PREFIX}MCP__SERVERS`, JSON"
    for section, model, keys in groups:
        lines.append(f"\n## `[{section}]`\n" if section else "\n## At the top of the file\n")
        lines.append("| key | kind | default | what it is | environment variable |")
        lines.append("|---|---|---|---|---|")
        said = descriptions(model)
        for key in keys:
            field = model.model_fields[key]
            path = (section, key) if section else (key,)
            variable = f"`{of_variable[path]}`" if path in of_variable else within
            lines.append(f"| `{key}` | {_kind(field.annotation)} | {_default(field)} | {said[key]} | {variable} |")
    return "\n".join(lines) + "\n"


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return _kind(next(a for a in arguments if a is not type(None)))
    if origin is dict:
        return "tables"
    if origin is tuple:
        return "list of tables" if _holds_tables(arguments[0]) else "list"
    kinds = {bool: "`true` or `false`", str: "text", int: "whole number", float: "number", Path: "path"}
    return {**kinds, Address: "`host:port`"}[annotation]


def _holds_tables(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _holds_tables(get_args(annotation)[0])
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _default(field: FieldInfo) -> str:
    if field.default_factory is dict:
        return "none"
    if field.default_factory is not None:
        return "the system's"
    if field.default in ("", None):
        return "–"
    if field.default == ():
        return "`[]`"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def cli_page() -> str:
    """``docs/reference/cli.md``."""
    from typer.main import get_command

    from nightporter.cli.app import app

    return "\n".join([texts.CLI_INTRODUCTION, *_command("nightporter", get_command(app))]) + "\n"


def _command(name: str, command: Any) -> list[str]:
    children = getattr(command, "commands", {})
    lines = [f"\n## `{name}`\n" if children else f"\n### `{name}`\n", command.help or ""]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            lines.append(
                f"\n- `{parameter.name.upper()}{'…' if parameter.nargs == -1 else ''}`: {parameter.help or 'files'}"
            )
        else:
            default = "" if parameter.default in (None, "", False) else f" Default: {parameter.default}."
            lines.append(f"\n- `{', '.join(parameter.opts)}`: {parameter.help}{default}")
    for child, its_command in children.items():
        lines += _command(f"{name} {child}", its_command)
    return lines


PAGES = {"settings.md": settings_page, "cli.md": cli_page}


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    for name, page in PAGES.items():
        (folder / name).write_text(page(), "utf-8")
