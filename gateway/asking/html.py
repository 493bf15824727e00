"""The page as HTML: plain, without scripts, everything that is not ours escaped and nothing in it invisible."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape

from starlette.responses import HTMLResponse

from gateway.asking import texts
from router.texts import moment
from workspace_store.approvals import Approval, Choice

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:44rem;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}pre{background:#f4f4f4;padding:1rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".asked{font-size:1.25rem;white-space:pre-wrap;overflow-wrap:anywhere}.small{color:#555;font-size:.85rem;"
    "overflow-wrap:anywhere}textarea,input{width:100%;box-sizing:border-box;font:inherit}"
    "button{font:inherit;padding:.5rem 1.25rem;margin:1rem .75rem 0 0}"
)
_STYLE_HASH = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@dataclass(frozen=True)
class Shown:
    """A question as one person is shown it. ``form``: what the form brings back, by field."""

    found: Approval
    name: str
    form: Mapping[str, str]
    editable: bool
    notice: str = ""
    instead: str = ""


def visible(text: str) -> str:
    """Text in which nothing hides: what turns or hides its neighbours is written as an escape."""
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _INVISIBLE and c not in "\n\t" else c for c in text)


def question(shown: Shown, status: int = 200) -> HTMLResponse:
    """What is asked, and the form that answers it."""
    found = shown.found
    exact = json.dumps(found.request, ensure_ascii=False, indent=2, sort_keys=True)
    at, until = moment(found.requested_at), moment(found.expires_at)
    body = [
        _notice(shown.notice),
        f'<p class="asked">{_safe(found.phrase)}</p>',
        f"<h2>{escape(texts.EXACTLY)}</h2>",
        f"<pre>{_safe(exact)}</pre>",
        f'<p class="small">{_safe(texts.digest(found.request_hash))}</p>',
        f'<p class="small">{_safe(texts.facts(at, until, found.place.address.channel, found.code))} '
        f"{_safe(texts.answers_as(shown.name))}</p>",
        f'<form method="post" action="{_safe(found.code)}" autocomplete="off">',
        *(f'<input type="hidden" name="{_safe(name)}" value="{_safe(value)}">' for name, value in shown.form.items()),
        _editing(shown) if shown.editable else "",
        *(_button(choice) for choice in found.choices),
        "</form>",
    ]
    return _page("".join(body), status)


def told(words: str, status: int = 200) -> HTMLResponse:
    """A page that only says something."""
    return _page(_notice(words), status)


def sign_in(code: str, notice: str, status: int = 401) -> HTMLResponse:
    """Where the owner signs in. ``code``: the question's, of letters and digits."""
    body = (
        f"{_notice(notice)}<p>{escape(texts.SIGN_IN_WHY)}</p>"
        f'<form method="post" action="{_safe(code)}/sign-in"><label>{escape(texts.OWNERS_TOKEN)} '
        '<input type="password" name="owner" autocomplete="current-password" required></label>'
        f"<button>{escape(texts.SIGN_IN)}</button></form>"
    )
    return _page(body, status)


def _editing(shown: Shown) -> str:
    hint = texts.HOW_TO_CHANGE.get(shown.found.kind, "")
    return (
        f'<label>{escape(texts.INSTEAD)}<textarea name="instead" rows="3" maxlength="20000" '
        f'placeholder="{_safe(hint)}">\n{_safe(shown.instead)}</textarea></label>'
    )


def _button(choice: Choice) -> str:
    value = f"{choice.verdict} {choice.name}"
    return f'<button name="answer" value="{_safe(value)}">{_safe(choice.label)}</button>'


def _notice(words: str) -> str:
    return f'<p class="asked">{_safe(words)}</p>' if words else ""


def _safe(text: str) -> str:
    return escape(visible(text), quote=True)


def _page(body: str, status: int) -> HTMLResponse:
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(texts.TITLE)}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{escape(texts.TITLE)}</h1>{body}</main></body></html>\n"
    )
    return HTMLResponse(page, status, HEADERS)
