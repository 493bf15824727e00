"""Slack's mrkdwn tokens as words: ``<@U1>``, ``<#C1|name>``, ``<url|label>``, ``<!here>``, and the three escapes.

https://docs.slack.dev/messaging/formatting-message-text: only ``&amp;``, ``&lt;`` and ``&gt;`` are escapes.
"""

from __future__ import annotations

import re

from gateway.slack.parsed import Bot

_TOKEN = re.compile(r"<([^<>\n]*)>")
_OWN = "\ue000"
"""Stands for the agent's own mention until the blanks around it are put right; a private-use character."""
_ESCAPES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
_ESCAPE = re.compile("&(?:amp|lt|gt);")


def unescape(text: str) -> str:
    """Slack's three escapes, decoded once."""
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mentions(text: str, bot: Bot) -> bool:
    """Whether a mention token of the agent stands in mrkdwn."""
    return any(found[1].split("|")[0] == f"@{bot.user}" for found in _TOKEN.finditer(text))


def words(text: str, bot: Bot) -> str:
    """Mrkdwn as the agent reads it: tokens as words, its own mention removed, escapes decoded once."""
    out, position = [], 0
    for found in _TOKEN.finditer(text):
        out.append(unescape(text[position : found.start()]).replace(_OWN, "\ufffd"))
        out.append(_token(found[1], bot))
        position = found.end()
    out.append(unescape(text[position:]).replace(_OWN, "\ufffd"))
    return without_mention("".join(out))


def without_mention(text: str) -> str:
    """Take the marks of the agent's own mention out; at the start, what separates an address from words goes too."""
    if _OWN not in text:
        return text
    text = re.sub(rf"\A(?:[ \t]*{_OWN})+[ \t]*[,:]?[ \t]*", "", text)
    text = re.sub(rf"[ \t]*{_OWN}\s*\Z", "", text)
    text = re.sub(rf"[ \t]*{_OWN}[ \t]+", " ", text)
    return text.replace(_OWN, "")


def person(user: str, bot: Bot) -> str:
    """``@U1``; the mark of its own mention for the agent."""
    return _OWN if user == bot.user else f"@{user}"


def link(url: str, label: str) -> str:
    """``label (url)``, or one of them where both say the same."""
    scheme, _, address = url.partition(":")
    if not label or label == url:
        return address if scheme in {"mailto", "tel"} and not label else url
    if scheme in {"mailto", "tel"} and _same(address, label, scheme):
        return label
    return f"{label} ({url})"


def _same(address: str, label: str, scheme: str) -> bool:
    if scheme == "tel":
        return re.sub(r"\D", "", address) == re.sub(r"\D", "", label)
    return address.lower() == label.lower()


def _token(inside: str, bot: Bot) -> str:
    kind, label_given, label = inside.partition("|")
    label = unescape(label)
    if kind.startswith("@"):
        return person(kind[1:], bot)
    if kind.startswith("#"):
        return f"#{label or kind[1:]}"
    if kind.startswith("!"):
        return _special(kind[1:], label)
    if not kind and not label_given:
        return "<>"
    return link(unescape(kind), label)


def _special(kind: str, label: str) -> str:
    name, _, rest = kind.partition("^")
    if name == "date":
        return label or rest.partition("^")[2]
    if name == "subteam":
        return label if label.startswith("@") else f"@{label or rest}"
    return label if label.startswith("@") else f"@{label or name}"
