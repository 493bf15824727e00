"""What a person reads from ``nightporter workspace``: state, environment and generations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_runner.environment_file import Environment


NOTHING_DIFFERS = "Nothing differs."


def no_state() -> str:
    return "There is no process state yet: no command has run in a sandbox."


def state_unreadable(reason: str) -> str:
    return f"The process state cannot be read ({reason}); the next wake takes the one of the last good generation."


def state_not_believed(reason: str) -> str:
    return f"The next wake will not use this but the state of the last good generation: {reason}."


def nothing_installed() -> str:
    return "Nothing is installed in this workspace: no package of pip, npm, apt, uv or cargo."


def environment_unreadable(reason: str) -> str:
    return f"environment.json cannot be used ({reason}); it is written anew when something is installed."


def environment(found: Environment) -> str:
    """``environment.json`` for people."""
    base = found.base
    pythons = ", ".join(f"Python {version} ({path})" for path, version in sorted(base.python.items()))
    facts = [base.system, base.machine, f"glibc {base.glibc}", pythons, f"Node {base.node or 'none'}"]
    lines = [f"on {', '.join(filter(None, facts))}", f"   {base.digest}"]
    for place in found.python:
        kind = "pip" if place.kind == "user" else "virtual environment"
        lines.append(f"{kind}, Python {place.python}, {place.where}:")
        lines += [f"  {line}" for line in place.packages]
    for name, packages in (("npm", found.npm), ("uv", found.uv), ("cargo", found.cargo)):
        lines += [f"{name}:", *(f"  {line}" for line in packages)] if packages else []
    if found.apt:
        lines.append("apt:")
        lines += [f"  {each.package} {each.version}{'' if each.asked else ' (needed)'}" for each in found.apt]
    lines += [f"not kept: {name}" for name in found.not_kept]
    if found.rebuilt is not None:
        lines += [f"rebuilt: {line}" for line in found.rebuilt.done]
        lines += [f"not rebuilt: {line}" for line in found.rebuilt.failed]
    return "\n".join(lines)


def no_generation() -> str:
    return "There is no generation of this workspace yet."


def exported_workspace(file: str, generation: int, entries: int, size: int) -> str:
    return f"Generation {generation} ({entries} entries) is in {file} ({size} bytes)."


def nothing_serves() -> str:
    return "Nothing serves this home now, so nothing was changed. Start it (`nightporter up`), and say it again."


def nobody_serves() -> str:
    return "No runner has served this yet; it is done when one runs (`nightporter up`)."


def state(kept: Mapping[str, Any]) -> str:
    """``session_state.json`` for people."""
    lines = []
    for name, terminal in sorted(kept.get("terminals", {}).items()):
        lines.append(f"terminal {name}: in {terminal.get('cwd')}, umask {terminal.get('umask')}")
        for variable, held in sorted(terminal.get("variables", {}).items()):
            flags = f" ({held.get('flags')})" if held.get("flags") else ""
            lines.append(f"  {variable}{flags}={json.dumps(held.get('value'), ensure_ascii=False)[:200]}")
        for key in ("functions", "aliases", "traps", "options", "shopt", "limits", "positional", "unset", "not_kept"):
            held = terminal.get(key)
            if held:
                shown = ", ".join(map(str, sorted(held) if isinstance(held, dict) else held))
                lines.append(f"  {key.replace('_', ' ')}: {shown[:500]}")
        lines.append(f"  history: {len(terminal.get('history', []))} commands")
        if terminal.get("open"):
            lines.append(f"  open in it: {terminal['open']} (it cannot be brought back)")
        lines += [f"  | {line}" for line in terminal.get("scrollback", [])]
    for task in kept.get("tasks", []):
        command = " ".join(map(str, task.get("argv", [])))[:200]
        lines.append(
            f"task {task.get('task')}: {command}, policy {task.get('policy')}, started {task.get('starts')}x, "
            f"log {task.get('log') or 'none'}"
        )
    lines += [f"timer: {line}" for line in str(kept.get("crontab", "")).splitlines() if line.strip()]
    return "\n".join(lines) or "Nothing is kept."


def not_imported(file: str, reason: str) -> str:
    return f"{file} was not imported, and nothing was changed: {reason}"
