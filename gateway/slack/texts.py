"""What people read from the Slack channel: answers, and why it does not work with what to do."""

from __future__ import annotations

WELCOME = "Hello. Tell me what you need; `/help` lists commands."
PROMPTS = (("What can you do?", "What can you do?"), ("What is going on?", "/status"))
WORKING = "is working on it…"
_COME_BACK = "install it again (Install App), set the new `slack.bot_token` and restart"
UNINSTALLED = f"the app was removed from the workspace, so nothing is sent there; {_COME_BACK}"
REVOKED = f"the bot's token was revoked, so nothing is sent there; {_COME_BACK}"
NOT_CONNECTED = "Socket Mode is not connected; it is tried again"

KEPT_ELSEWHERE = "it is a link to another service's file, which Slack does not keep"
SIGN_IN_PAGE = "Slack shows its sign-in page instead; add `files:read` to the app's scopes and reinstall it"

_REFUSED = {
    "file_not_found": "the file does not exist any more, or the app may not see it",
    "file_deleted": "the file was deleted",
    "channel_not_found": "the conversation does not exist any more, or the app was removed from it",
    "not_in_channel": "the app is not a member of the channel; invite it",
    "is_archived": "the channel is archived",
    "user_not_found": "the person is not in the workspace any more",
    "user_is_bot": "bots are not written to",
    "messages_tab_disabled": "the app's message tab is off; switch on App Home → Messages Tab",
    "missing_scope": "the app lacks a permission; compare its scopes with deploy/slack-manifest.yaml and reinstall it",
    "restricted_action": "an admin does not let the app post there",
}
_CREDENTIALS = "Slack does not accept `slack.bot_token`; copy it again from OAuth & Permissions and restart"


def refused(error: str) -> str:
    return f"{error}: {_REFUSED[error]}" if error in _REFUSED else f"Slack refused: {error}"


def bad_credentials(error: str) -> str:
    return f"{error}: {_CREDENTIALS}"


def bad_app_token(error: str) -> str:
    return f"{error}: Slack does not accept `slack.app_token`; make one with `connections:write` and restart"


def no_installation(team: str) -> str:
    return f"no `slack.bot_token` for the workspace {team}"


def unreachable(reason: str) -> str:
    return f"Slack cannot be reached: {reason}"


def transcript(text: str) -> str:
    return f"Transcript of the voice message:\n{text}"


def looking_at(channel: str) -> str:
    return f"(They are looking at the channel <#{channel}>.)"


def title(text: str) -> str:
    """What a thread with the assistant is called."""
    first = " ".join(text.split())
    return first if len(first) <= 60 else f"{first[:59]}…"
