"""Chat commands: known in each form people type them, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from router import commands


@pytest.mark.parametrize("name", commands.COMMANDS)
@pytest.mark.parametrize("form", ["/{}", "!{}", " /{} ", "/{}@porter_bot", "/{} now please", "/{}\nmore"])
def test_a_command_is_known_in_every_form(name: str, form: str) -> None:
    for spelled in (name, name.upper()):
        found = commands.find(form.format(spelled))
        assert found is not None
        assert found[0] is commands.COMMANDS[name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/unknown",
        "help",
        "say /help",
        "//help",
        "/help/me",
        "/helpful",
        "! help",
        "/ help",
        "$ /help",
        "/etc/passwd",
    ],
)
def test_anything_else_goes_to_the_agent(text: str) -> None:
    assert commands.find(text) is None


def test_the_rest_of_the_line_comes_with_the_command() -> None:
    found = commands.find("/stop@bot  all of it ")
    assert found is not None
    assert found[1] == "all of it"


@pytest.mark.parametrize(
    "text", [" " * 500_000 + "x", "/help" + " " * 500_000, "/a" * 250_000, "/help@" + "a" * 500_000]
)
def test_a_long_text_is_looked_at_once(text: str) -> None:
    """A pattern that tried every split would not end within the test's patience."""
    commands.find(text)
