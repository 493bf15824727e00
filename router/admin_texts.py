"""What administrators read: who there is, what would move, what was done."""

from __future__ import annotations

from identity.administration import Details, Plan
from identity.merging import Merge
from identity.names import harmless
from identity.pairing import Waiting
from identity.users import Known, User
from router.link_texts import holds
from router.texts import moment

ONLY_ADMINS = "Only administrators can do that."
NOBODY_WAITS = "Nobody waits to be let in."
MERGE = "Merge"
HELP = """Write one of these; users by UUID, its beginning, or a name such as `email:ann@example.org`:

- `/admin users` lists users, `/admin users UUID` those after that one; and who waits to be let in
- `/admin show USER` says who they are, where, and what they have
- `/admin approve CODE`, `/admin refuse CODE` lets a stranger in, or turns them away
- `/admin link USER CHANNEL:ID`, `/admin unlink CHANNEL:ID` gives or takes a way of being reached
- `/admin merge KEEP ABSORB`, `/admin unmerge USER` makes two users one, and two again
- `/admin object MERGE` stops a merge that waits
- `/admin role USER admin|member`, `/admin block USER`, `/admin unblock USER`"""


def line(user: User, known: list[Known]) -> str:
    at = ", ".join(one.name for one in known) or "no channel"
    if user.merged_into:
        more = f", merged into `{user.merged_into}`"
    elif user.moved_to is not None:
        more = f", moved to {harmless(user.moved_to)}"
    else:
        more = ", blocked" if user.blocked else ""
    return f"- `{user.id}` {harmless(user.display_name)}, {user.role}{more}: {at}"


def waits(found: Waiting) -> str:
    claim = found.claim
    known = Known(claim.channel, claim.account, claim.external_id)
    until = moment(found.expires_at)
    return f"- `{found.code}` {known.name} ({harmless(claim.display)}), until {until}"


def more(last: User) -> str:
    return f"\n\nThere are more: `/admin users {last.id}`."


def show(found: Details) -> str:
    lines = [
        line(found.user, found.identities),
        f"- has {holds(found.holdings)}",
        *(f"- merged into it: `{lost}`, seen as `/workspace/merged/{folder}`" for lost, folder in found.absorbed),
        *(
            f"- {moment(event.at)} {event.kind} by {f'`{event.actor}`' if event.actor else 'the house'}"
            for event in found.events[:10]
        ),
    ]
    return "\n".join(lines)


def plan(found: Plan) -> str:
    kept, lost = found.kept, found.absorbed
    names = ", ".join(one.name for one in lost.identities) or "no channel"
    return (
        f"`{kept.user.id}` ({harmless(kept.user.display_name)}) is kept, with {holds(kept.holdings)}.\n"
        f"`{lost.user.id}` ({harmless(lost.user.display_name)}) becomes the same person:\n\n"
        f"- whoever writes from {names} is {harmless(kept.user.display_name)} from then on\n"
        f"- {holds(lost.holdings)} can be read there; the files as `/workspace/merged/{found.folder}`\n"
        f"- what waits or asks there ({lost.holdings.waiting}) goes on there; background tasks end\n"
        "- journals and workspaces stay apart, so that `unmerge` gives everything back"
    )


def confirm(found: Plan) -> str:
    return f"{plan(found)}\n\nIf that is right: `/admin merge {found.kept.user.id} {found.absorbed.user.id} --yes`"


def merged(found: Merge, command: str = "/admin") -> str:
    if found.state != "done":
        return "A turn is running for one of them; they are merged as soon as it is done."
    return f"Merged. `{command} unmerge {found.absorbed}` takes it back."


def unmerged(found: Merge) -> str:
    return f"`{found.kept}` and `{found.absorbed}` are two again; what was done since stays with `{found.kept}`."


def linked(user: User, known: Known) -> str:
    return f"`{known.name}` is {harmless(user.display_name)} (`{user.id}`) now."


def unlinked(user: User, known: Known) -> str:
    return (
        f"`{known.name}` is no longer {harmless(user.display_name)} (`{user.id}`). "
        f"`/admin link {user.id} {known.name}` takes it back."
    )


def role(user: User, new: str) -> str:
    return f"{harmless(user.display_name)} (`{user.id}`) is {new} now."


def blocked(user: User) -> str:
    return f"{harmless(user.display_name)} (`{user.id}`) is blocked: what ran is stopped, and nothing more is answered."


def unblocked(user: User) -> str:
    return f"{harmless(user.display_name)} (`{user.id}`) is heard again."


def let_in(user: User) -> str:
    return f"{harmless(user.display_name)} (`{user.id}`) is let in as {user.role}, and told."


def turned_away(found: Waiting) -> str:
    return f"{harmless(found.claim.display)} is turned away, and met with silence for an hour."


def refused(why: str) -> str:
    return f"Not done: {why}."


def no_such(verb: str) -> str:
    return f"There is no `/admin {harmless(verb)}`.\n\n{HELP}"
