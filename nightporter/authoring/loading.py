"""Reading ``agent.py``: the one ``Agent`` in it, or a sentence that says which line is wrong and what to do.

It is the operator's trusted code and runs as it is; it is read in the process that is to run its tools, and before in
one of its own, so that ``up`` refuses what is wrong with it.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import structlog

from nightporter.authoring import texts
from nightporter.authoring.words import Agent
from nightporter.errors import ConfigurationError

MODULE = "nightporter_agent"
"""Not ``agent``: that is a package of ours."""


class AgentFileError(ConfigurationError):
    """The file holds no agent that can be run; the text names file and line, and says what to do."""


def load(path: Path) -> Agent:
    """The agent of a file. Raises AgentFileError."""
    module = _run(path)
    found = {name: value for name, value in vars(module).items() if isinstance(value, Agent)}
    if "agent" in found:
        return found["agent"]
    distinct = {id(value): value for value in found.values()}
    if not distinct:
        raise AgentFileError(texts.no_agent(path))
    if len(distinct) > 1:
        raise AgentFileError(texts.several_agents(path, list(found)))
    return next(iter(distinct.values()))


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise AgentFileError(texts.no_file(path))
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise AgentFileError(texts.not_python(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    if str(path.parent) not in sys.path:
        # Last: what is installed keeps its name.
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        structlog.get_logger().debug("agent file failed", exc_info=True)
        raise AgentFileError(texts.failed(path, *_where(path, error))) from error
    return module


def _where(path: Path, error: BaseException) -> tuple[int, str, str]:
    """The last line of the file itself that led to an error, that line's words, and what went wrong."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1, (error.text or "").strip(), f"{type(error).__name__}: {error.msg}"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if not frames:
        return 1, "", what
    return frames[-1].lineno or 1, frames[-1].line or "", what
