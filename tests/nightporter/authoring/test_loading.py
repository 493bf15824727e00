"""What is wrong with an agent's file is told with its line and what to do; what is right is an agent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from uuid import UUID

import pytest

from nightporter.authoring.agents import Employed, employ
from nightporter.authoring.loading import AgentFileError

HEAD = "from nightporter import Agent, Ask, Call, Context, Refuse, tool\n"
GOOD = '''
@tool
def ring(room: int) -> str:
    """Ring a room."""
    return f"Ringing {room}."
'''


async def no_blob(owner: UUID, blob: str) -> bytes:
    raise AssertionError("nothing is read here")


def employed(folder: Path, text: str) -> Employed:
    path = folder / "agent.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return employ(path, no_blob)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(AgentFileError) as caught:
        employed(folder, text)
    return str(caught.value)


def test_an_agent_has_its_role_its_rules_and_its_tools_beside_the_built_in_ones(tmp_path: Path) -> None:
    found = employed(tmp_path, GOOD + 'agent = Agent(role="You are Ada.", tools=[ring], policies=["Be brief."])\n')
    assert found.role == "You are Ada.\n- Be brief."
    assert {"ring", "shell", "remember"} <= set(found.toolbox.standing)
    assert found.toolbox.standing["ring"].repetition == "once", "unless it is said to be harmless"


def test_built_in_tools_can_be_left_out(tmp_path: Path) -> None:
    found = employed(tmp_path, GOOD + 'a = Agent(role="Ada", tools=[ring], builtin_tools=["remember"])\n')
    assert list(found.toolbox.standing) == ["remember", "ring"]


def test_a_plain_function_is_a_tool_and_helpers_beside_the_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "bells_of_ada.py").write_text("BELL = 'ding'\n")
    found = employed(
        tmp_path,
        '''
        import bells_of_ada

        def bell() -> str:
            """Which bell there is."""
            return bells_of_ada.BELL

        agent = Agent(role="Ada", tools=[bell])
        ''',
    )
    assert found.toolbox.standing["bell"].repetition == "once"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("x = (\n", 2, "SyntaxError"),
        ("import nothing_of_that_name\n", 2, "No module named 'nothing_of_that_name'"),
        ("\n\nraise ValueError('my own fault')\n", 4, "ValueError: my own fault"),
        ('@tool(kind="twice")\ndef f() -> str: ...\n', 2, 'write "pure", "idempotent" or "once"'),
        ('@tool("pure")\ndef f() -> str: ...\n', 2, '@tool(kind="…")'),
        ('@tool(approval="boss")\ndef f() -> str: ...\n', 2, 'write "ask" or "admin"'),
        ("@tool(timeout=0)\ndef f() -> str: ...\n", 2, "write seconds"),
        ('@tool\nclass F:\n    """A thing."""\n', 2, "is not a function"),
        ("raise SystemExit(3)\n", 2, "SystemExit: 3"),
    ],
)
def test_what_goes_wrong_while_it_is_read_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    said = refused(tmp_path, text)
    assert f"agent.py, line {line}: " in said
    assert words in said
    assert "Correct it and start again" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(room) -> str:\n    '''F.'''\n", "`room` has no type; write for example `room: str`"),
        ("def f(room: int) -> str:\n    return ''\n", "no docstring"),
        ("def f(*rooms: int) -> str:\n    '''F.'''\n", "give it named parameters"),
        ("def f(room: Roam) -> str:\n    '''F.'''\n", "name 'Roam' is not defined"),
        ("def f(ring: __import__('typing').Callable[[], int]) -> str:\n    '''F.'''\n", "cannot be told as JSON"),
        ("class R: ...\ndef f(room: R) -> str:\n    '''F.'''\n", "cannot be told as JSON"),
        ("def f(a: Context, b: Context) -> str:\n    '''F.'''\n", "more than one Context"),
        ("def f():\n    '''F.'''\n    yield 1\n", "return a value instead"),
        ("@tool(kind='idempotent')\ndef f(key: int) -> str:\n    '''F.'''\n", "annotated `key: str`"),
        ("@tool(name='a tool')\ndef f() -> str:\n    '''F.'''\n", "is none for a tool"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    said = refused(tmp_path, text + "agent = Agent('Ada', [f])\n")
    assert "agent.py, line " in said
    assert words in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("role = 'nobody'\n", "holds no Agent"),
        ("a = Agent('Ada')\nb = Agent('Ben')\n", "holds several Agents (a, b); call the one to run `agent`"),
        ("agent = Agent(' ')\n", "its role is empty"),
        ("agent = Agent('Ada', ['ring'])\n", "tools holds 'ring', which is no function"),
        ("agent = Agent('Ada', policies=[3])\n", "policies holds 3"),
        ("async def p(call): ...\nagent = Agent('Ada', policies=[p])\n", "write it with a plain def"),
        ("agent = Agent('Ada', builtin_tools=['sell'])\n", "builtin_tools names sell, which there is not"),
        (GOOD + "agent = Agent('Ada', [ring, ring])\n", "two tools are called `ring`"),
        ("def shell() -> str:\n    '''Sea.'''\nagent = Agent('Ada', [shell])\n", "the name of a built-in tool"),
    ],
)
def test_an_agent_that_cannot_work_is_told_why(tmp_path: Path, text: str, words: str) -> None:
    assert words in refused(tmp_path, text)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(AgentFileError, match="is not a file; name the agent's Python file with --agent"):
        employ(tmp_path / "agent.py", no_blob)


def test_importing_the_words_imports_little() -> None:
    heavy = "pydantic sqlalchemy structlog asyncio agent workspace_store"
    look = f"import sys; from nightporter import Agent, tool; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
