"""``/actions/CODE``: the page of one approval. A GET never decides: mail scanners follow links.

Somebody is signed in by the token of a link, which stands for the person who was asked this one question, or by a
cookie that the owner got for the owner's token. A decision is a POST of the form as it was shown, in the same visit.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast
from urllib.parse import parse_qsl

from sqlalchemy import Connection
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.asking import html, texts
from gateway.asking.html import Shown
from gateway.asking.links import SESSION_SECONDS, Seals
from gateway.local.requests import BadRequest, read_body
from identity import users
from identity.access import OWNER
from identity.names import harmless
from identity.users import Claim, User
from router import actions
from router.actions import Answered, Woken
from router.texts import answered
from workspace_store import approval_rows, approvals
from workspace_store import principal as principals
from workspace_store.approvals import Approval, Decision, Hooks, Kind, Verdict
from workspace_store.database import Database, DatabaseUnavailable, database_now_us, storable

MAX_FORM_BYTES = 256 << 10
VISIT = "nightporter_visit_"
SESSION = "nightporter_owner"
VIA = "page"
_NONCE = re.compile(r"[0-9a-f]{32}")
_STATUS = {"decided": 200, "already": 409, "expired": 410, "bad_edit": 422, "not_yours": 403, "unknown": 404}

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Visit:
    """A question and who looks at it.

    ``bound``: what their form is bound to. ``token``: the link's, empty for the owner. ``refusal``: why it cannot be
    answered by them now.
    """

    found: Approval
    user: User
    bound: str
    token: str
    refusal: Decision | None


@dataclass
class ApprovalPages:
    """What the page stands on. ``wake`` and ``ring`` are called after the commit."""

    database: Database
    hooks: Hooks
    seals: Seals
    owners_token: str
    secure: bool
    """Whether the page is reached by https, which its cookies then insist on."""
    wake: Callable[[Woken], None]
    ring: Callable[[], None]

    def routes(self) -> list[Route]:
        return [
            Route("/actions/{code}", _explained(self._show), methods=["GET"]),
            Route("/actions/{code}", _explained(self._answer), methods=["POST"]),
            Route("/actions/{code}/sign-in", _explained(self._sign_in), methods=["POST"]),
        ]

    async def _show(self, request: Request) -> Response:
        visit = await self._visit(request, request.query_params.get("t", ""))
        if isinstance(visit, HTMLResponse):
            return visit
        page = self._page(visit)
        if visit.token and visit.refusal is None:
            self._set_cookie(page, VISIT + visit.found.code, visit.bound, None)
        return page

    async def _answer(self, request: Request) -> Response:
        fields = await _form(request)
        visit = await self._visit(request, fields.get("t", ""))
        if isinstance(visit, HTMLResponse):
            return visit
        if visit.refusal is not None:
            return self._page(visit)
        seal = self.seals.form(visit.bound, visit.found, visit.user.id)
        if not hmac.compare_digest(fields.get("seal", "").encode(), seal.encode()):
            return html.told(texts.FORM_TOO_OLD, 403)
        verdict, _, choice = fields.get("answer", "").partition(" ")
        if verdict not in ("approve", "deny"):
            return html.told(texts.NOT_A_FORM, 400)
        instead = fields.get("instead", "").replace("\r\n", "\n").strip() if verdict == "approve" else ""
        return await self._decide(visit, cast("Verdict", verdict), choice, instead)

    async def _decide(self, visit: Visit, verdict: Verdict, choice: str, instead: str) -> Response:
        # By the code, which is another one as soon as something else is asked.
        outcome: Answered = await self.database.write(
            partial(
                actions.answer, code=visit.found.code, decider=visit.user, verdict=verdict, via=VIA, hooks=self.hooks,
                choice=choice, instead=instead,
            )
        )  # fmt: skip
        for woken in outcome.woken:
            self.wake(woken)
        if outcome.decision.outcome == "bad_edit":
            return self._page(visit, outcome.text, instead)
        self.ring()
        return html.told(outcome.text, _STATUS.get(outcome.decision.outcome, 400))

    async def _sign_in(self, request: Request) -> Response:
        fields = await _form(request)
        code = approval_rows.plain(str(request.path_params["code"]))[:32]
        if not hmac.compare_digest(fields.get("owner", "").strip().encode(), self.owners_token.encode()):
            return html.told(texts.WRONG_TOKEN, 401)
        answer = RedirectResponse(f"../{code}", 303, html.HEADERS)
        self._set_cookie(answer, SESSION, self.seals.session(time.time()), SESSION_SECONDS)
        return answer

    # Who it is

    async def _visit(self, request: Request, token: str) -> Visit | HTMLResponse:
        """The question and who looks at it; the page where nobody does, or at nothing."""
        code = storable(str(request.path_params["code"]))
        session = request.cookies.get(SESSION, "")
        owner = not token and self.seals.is_session(session, time.time())
        found, user, refusal = await self.database.read(partial(self._find, code=code, token=token, owner=owner))
        if user is None or user.blocked:
            plain = approval_rows.plain(code)[:32]
            return html.sign_in(plain, texts.OPENS_NOTHING if token else "", 403 if token else 401)
        if found is None:
            return html.told(texts.NO_SUCH, 404)
        nonce = request.cookies.get(VISIT + found.code, "")
        if not _NONCE.fullmatch(nonce):
            nonce = secrets.token_hex(16)
        return Visit(found, user, session if owner else nonce, token, refusal)

    def _find(
        self, connection: Connection, *, code: str, token: str, owner: bool
    ) -> tuple[Approval | None, User | None, Decision | None]:
        found, user = approvals.find(connection, code), None
        if owner:
            user = users.by_identity(connection, Claim("local", "", OWNER))
        elif found is not None and token:
            # Since a merge, who was asked is somebody else's earlier self.
            person = self.seals.person(token, found, principals.scope(connection, found.asked))
            user = users.get(connection, principals.root(connection, person)) if person else None
        if found is None or user is None:
            return found, user, None
        return found, user, _refusal(connection, found, user)

    def _set_cookie(self, answer: Response, name: str, value: str, seconds: int | None) -> None:
        answer.set_cookie(name, value, seconds, path="/", secure=self.secure, httponly=True, samesite="strict")

    def _page(self, visit: Visit, notice: str = "", instead: str = "") -> HTMLResponse:
        if visit.refusal is not None:
            return html.told(answered(visit.refusal, "approve", ""), _STATUS[visit.refusal.outcome])
        found, kind = visit.found, self.hooks.get(visit.found.kind)
        form = {"seal": self.seals.form(visit.bound, found, visit.user.id)}
        if visit.token:
            form["t"] = visit.token
        editable = isinstance(kind, Kind) and kind.edit is not None
        shown = Shown(found, harmless(visit.user.display_name), form, editable, notice, instead)
        return html.question(shown, 422 if notice else 200)


def _refusal(connection: Connection, found: Approval, user: User) -> Decision | None:
    """Why somebody cannot answer it now; None: they can."""
    if not approvals.may_answer(connection, found, user):
        return Decision("not_yours", found)
    if found.status == "expired" or (found.status == "pending" and found.expires_at <= database_now_us(connection)):
        return Decision("expired", found)
    return None if found.status == "pending" else Decision("already", found)


def _explained(handler: Handler) -> Handler:
    async def explained(request: Request) -> Response:
        try:
            if (
                request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
                and request.method == "POST"
            ):
                return html.told(texts.FORM_TOO_OLD, 403)
            return await handler(request)
        except BadRequest as error:
            return html.told(error.reason, error.status)
        except DatabaseUnavailable:
            return html.told(texts.TRY_AGAIN, 503)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody

    return explained


async def _form(request: Request) -> Mapping[str, str]:
    """The fields of a form. Raises BadRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise BadRequest(415, texts.NOT_A_FORM)
    body = await read_body(request, MAX_FORM_BYTES)
    try:
        fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise BadRequest(400, texts.NOT_A_FORM) from None
    return {name: storable(value) for name, value in fields}
