"""A town of people who talk to an inbox over a real database; what they are told is read from the outbox."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from identity import users
from identity.access import Access, Policy
from identity.users import Claim, User
from router.doors import Doors
from router.envelope import Envelope
from router.inbox import Inbox
from workspace_store import journal, memory, outbox, principal
from workspace_store.database import Database

SLACK = Claim("slack", "T1", "U1", "Ann", "platform")
MAIL = Claim("email", "", "ann@example.org", "Ann", "dmarc")
TELEGRAM = Claim("telegram", "7", "5", "Ann", "platform")
EVE = Claim("telegram", "7", "666", "Ann", "platform")


@dataclass
class Town:
    """People who talk by claims; what they are told is read from the outbox."""

    database: Database
    policy: Policy = "pairing"
    admins: tuple[str, ...] = ("slack:T1/U1",)
    inbox: Inbox = field(init=False)
    _number: int = 0
    heard: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        access = Access(self.policy, self.admins)
        self.inbox = Inbox(self.database, access, lambda _: None, doors=Doors("porter_bot", "porter@example.org"))

    async def say(self, claim: Claim, words: str, *, shared: bool = False) -> str:
        """Say something, and hear what is said to that person because of it; others' news are kept in ``heard``."""
        self._number += 1
        place = "C1" if shared else claim.external_id
        await self.inbox.accept(
            Envelope(claim.channel, claim.account, f"m{self._number}", claim, place, "", words, shared=shared)
        )
        self.deliver()
        return "\n".join(self.heard.pop("C1" if shared else claim.external_id, []))

    def deliver(self) -> None:
        channels = ["local", "slack", "telegram", "email"]
        while found := self.database.write_now(lambda c: outbox.claim(c, channels, "me", [])):
            for reply in found:
                self.database.write_now(lambda c, reply=reply: outbox.sent(c, reply.id, "me", "1"))
                self.heard.setdefault(reply.conversation, []).append(reply.content["text"])

    async def code(self, claim: Claim) -> str:
        found = re.search(r"`([0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4})`", await self.say(claim, "/link"))
        assert found is not None
        return found[1]

    async def link(self, one: Claim, other: Claim) -> str:
        code = await self.code(one)
        await self.say(other, f"/link {code}")
        await self.say(one, f"/confirm {code}")
        return await self.say(other, f"/confirm {code}")

    def user(self, claim: Claim) -> User | None:
        return self.database.read_now(lambda c: users.by_identity(c, claim))

    def give(self, claim: Claim, note: str) -> None:
        """Something of their own."""
        user = self.user(claim)
        assert user is not None
        self.database.write_now(lambda c: memory.write_note(c, user.id, note, note, None))

    def verified(self) -> bool:
        owners = self.database.read_now(principal.everyone)
        return not any(self.database.read_now(lambda c, o=o: journal.verify(c, o))[1] for o in owners)
