"""What a person reads on the page of an approval, and beside the link to it."""

from __future__ import annotations

from collections.abc import Mapping

TITLE = "Nightporter asks"
SIGN_IN = "Sign in"
SIGN_IN_WHY = (
    "This page is opened by the link of a question, which is its reader's own, or by the owner's token, which is in "
    "the file “token” of Nightporter's home folder."
)
OPENS_NOTHING = (
    "This link opens nothing. It may not be whole, or something else is asked by now, and the newer question counts. "
    "“/actions” lists what waits for you."
)
WRONG_TOKEN = "That is not the owner's token."
NO_SUCH = "There is no such question; “/actions” lists what waits for you."
FORM_TOO_OLD = (
    "Nothing was decided: this form did not come from this page as it is shown now. Open the question's link again."
)
NOT_A_FORM = "Nothing was decided: this is answered by the buttons of the page."
TRY_AGAIN = "Nothing was decided: the database is not reachable now. Try again in a moment."
EXACTLY = "Exactly this"
INSTEAD = "Approve this instead (leave it empty to approve exactly what is asked)"
OWNERS_TOKEN = "The owner's token"
HOW_TO_CHANGE: Mapping[str, str] = {
    "egress.host": "HOST or HOST:PORT",
    "budget": "a sum in dollars",
    "tool": "a JSON object of the arguments that differ, or the text of the only one that is text",
}
"""By kind of approval."""


def look(url: str) -> str:
    """Follows a question, in markdown. The address stands by itself: a reader's program finds where it ends."""
    return f"Or read exactly what is asked, answer or change it on its page:\n{url}"


def facts(asked_at: str, until: str, channel: str, code: str) -> str:
    return f"Asked {asked_at} by {channel}, open until {until}; ID {code}."


def digest(request_hash: str) -> str:
    return f"SHA-256 of the request: {request_hash}"


def answers_as(name: str) -> str:
    return f"You answer as {name}."
