"""Skills of the workspace: told by name when there are any, read when wanted, never led out of it."""

from __future__ import annotations

from agent.engine import Step, ToolCall
from agent.models import texts as model_texts
from agent.preface import Preface
from agent.trajectory import Context, Said
from tests.turns.stage import Scripted, Stage, answer

SKILL = """---
name: invoices
description: >
  How an invoice
  is written.
---

# Invoices

Number them from 1000.
"""
LINE = "Skill `invoices` (`use_skill` reads it; it says of itself: How an invoice is written.)"


async def turn(stage: Stage, *calls: tuple[str, dict[str, str]]) -> tuple[Preface, list[Said]]:
    """What rode with a message, and the results of calls."""
    found: list[Said] = []
    prefaces: list[Preface] = []

    async def script(context: Context) -> Step:
        prefaces[:] = [Preface.of(said) for said in context.turn if said.role == "user"]
        found[:] = [said for said in context.turn if said.role == "tool"]
        if len(found) < len(calls):
            return Step(calls=(ToolCall(f"call-{len(found)}", *calls[len(found)]),))
        return answer(context, "done")

    engine = Scripted(script)
    engine.looks_back = True
    await stage.hear("work")
    await stage.serve(engine)
    return prefaces[0], found


def shell(command: str) -> tuple[str, dict[str, str]]:
    return "shell", {"command": command}


async def test_a_skill_is_told_once_read_when_wanted_and_told_when_it_is_gone(stage: Stage) -> None:
    before, _ = await turn(stage, ("write_file", {"path": "skills/invoices/SKILL.md", "content": SKILL}))
    assert before.opened == ()
    first, (read,) = await turn(stage, ("use_skill", {"name": "invoices"}))
    assert list(first.opened) == [LINE]
    assert read.text == "# Invoices\n\nNumber them from 1000."
    assert model_texts.tool_said(read).startswith("<quoted>\nFrom skill invoices of the workspace:\n")
    second, _ = await turn(stage, shell("rm -r skills"))
    assert second.opened == (), "it stands in an earlier message"
    third, (missing,) = await turn(stage, ("use_skill", {"name": "invoices"}))
    assert list(third.closed) == [LINE]
    assert "there is no skill 'invoices'" in missing.text


async def test_what_leads_out_or_is_no_file_is_no_skill(stage: Stage) -> None:
    await turn(
        stage,
        shell(
            "mkdir -p skills/{link,fifo,long,folder/SKILL.md,'a b',plain} real"
            " && ln -s /etc/passwd skills/link/SKILL.md"
            " && mkfifo skills/fifo/SKILL.md && head -c 70000 /dev/zero > skills/long/SKILL.md"
            " && echo x > 'skills/a b/SKILL.md' && echo 'Just words.' > skills/plain/SKILL.md"
            " && echo x > real/SKILL.md && ln -s ../real skills/linked"
        ),
    )
    names = ("link", "fifo", "long", "folder", "linked", "../real", "plain")
    told, read = await turn(stage, *(("use_skill", {"name": name}) for name in names))
    assert list(told.opened) == ["Skill `plain` (`use_skill` reads it; it says of itself: nothing)"]
    assert [said.text for said in read if "I could not run this" not in said.text] == ["Just words."]
    assert "is longer than 65,536 bytes" in read[2].text
    assert "root:" not in "".join(said.text for said in read)


async def test_a_workspace_that_is_a_link_itself_shows_nothing(stage: Stage) -> None:
    await turn(stage, shell("ln -s /etc skills"))
    told, _ = await turn(stage)
    assert told.opened == ()
