"""One person at Slack, by mail and on Telegram: linked by code, with one memory and one workspace, and nobody else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable

import pytest

from nightporter.testing import House
from tests.scenarios.three_channels import Town, link_all, town_with

MakeHouse = Callable[..., House]
EVE = {"id": 666, "is_bot": False, "first_name": "Ann"}


@pytest.fixture
async def town(make_house: MakeHouse) -> AsyncIterator[Town]:
    async with town_with(make_house) as found:
        yield found


@pytest.mark.slow
async def test_one_person_at_three_channels_and_nobody_else(town: Town) -> None:
    # A stranger waits; the owner of the house lets her in.
    said = await town.slack("hello")
    assert "I do not know you yet" in said
    waiting = re.search(r"/admin approve ([0-9A-Z]{6})", said)
    assert waiting is not None
    assert "is let in" in await asyncio.to_thread(town.house.say, f"/admin approve {waiting[1]}")
    await asyncio.sleep(1.5)
    # Mail, by writing to the address with the code in it; Telegram, by the link.
    code = await link_all(town)
    # One memory and one workspace.
    await town.slack("remember the codeword is heron")
    await town.slack("$ echo 'the treasure is under the oak' > map.txt; pwd")
    assert "heron" in await town.mail("recall codeword")
    assert "under the oak" in await town.mail("$ cat map.txt")
    await town.telegram("$ echo 'the treasure is under the elm' > map.txt")
    await town.telegram("remember the codeword is osprey")
    assert "under the elm" in await town.slack("$ cat map.txt")
    assert "osprey" in await town.mail("recall codeword")
    whoami = await town.telegram("/whoami")
    assert all(name in whoami for name in ("slack:T1/UANN", "email:ann@example.org", "telegram:5"))
    # Eve, who calls herself Ann, gets nothing, however she asks: a member by now.
    said = await town.telegram("hello", EVE)
    waiting = re.search(r"/admin approve ([0-9A-Z]{6})", said)
    assert waiting is not None
    await asyncio.to_thread(town.house.say, f"/admin approve {waiting[1]}")
    await asyncio.sleep(1.5)
    shown = await asyncio.to_thread(town.house.run, "users", "show", "telegram:5", "--json")
    identifier = json.loads(shown.stdout)["id"]
    asked = [
        "recall codeword", "recall treasure", "/memory", f"/memory {identifier}", "/history", "/actions",
        f"/link {identifier}",
        "$ ls -R /workspace /home; cat map.txt /workspace/merged/*/map.txt", f"/admin show {identifier}",
        f"/admin merge {identifier} {identifier}", f"$ find / -name '*{identifier}*' -o -name map.txt 2>/dev/null",
        f"/confirm {code}", f"/link {code}", "/whoami", f"recall {identifier}",
    ]  # fmt: skip
    for words in asked:
        said = await town.telegram(words, EVE)
        for secret in ("heron", "osprey", "under the", "slack:T1/UANN", "ann@example.org"):
            assert secret not in said, (words, said)
    verified = await asyncio.to_thread(town.house.run, "journal", "verify")
    assert verified.returncode == 0, verified.stdout
