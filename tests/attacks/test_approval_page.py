"""Attack: having an approval decided by somebody who only follows links, or by who was not asked; and by a page of
one's own in the browser of who was."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from gateway.asking.links import Seals
from tests.approval_pages import TOKEN, Browser, Pages, browsing, serving, token_of
from workspace_store.database import Database


@pytest.fixture
async def pages(sqlite: Database) -> AsyncIterator[Pages]:
    async with serving(sqlite) as found:
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "REPORT", "POST"]
)
async def test_a_scanner_that_follows_the_link_decides_nothing(pages: Pages, browser: Browser, method: str) -> None:
    found = await pages.ask()
    link = await pages.link(found)
    for address in (link, f"{link}&answer=approve+once", f"{link}&answer=deny+deny&seal=x", link.replace("?", "/?")):
        for _ in range(2):
            await browser.client.request(method, address)
    assert (await pages.now(found)).status == "pending"
    assert (pages.rows(), pages.woken, pages.rung) == (0, [], [])


FORGED: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "no seal": lambda form: {"t": form["t"]},
    "an empty one": lambda form: {**form, "seal": ""},
    "a guessed one": lambda form: {**form, "seal": "0" * 40},
    "one that is not ASCII": lambda form: {**form, "seal": "é" * 40},
    "the token for it": lambda form: {**form, "seal": form["t"]},
}


@pytest.mark.parametrize("forged", FORGED)
async def test_a_form_without_this_pages_seal(pages: Pages, browser: Browser, forged: str) -> None:
    found = await pages.ask()
    await browser.open(await pages.link(found))
    answer = await browser.post({**FORGED[forged](browser.form), "answer": "approve once"})
    assert answer.status_code == 403
    assert (await pages.now(found)).status == "pending"


async def test_a_form_of_another_visit_or_sent_from_another_site(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    async with browsing() as attacker:
        await attacker.open(await pages.link(found))
        # The attacker's own form, in the browser of whoever has a cookie of another visit, or none.
        browser.at = attacker.at
        assert (await browser.post({**attacker.form, "answer": "approve once"})).status_code == 403
        await browser.open(await pages.link(found))
        assert (await browser.post({**attacker.form, "answer": "approve once"})).status_code == 403
    for site in ("cross-site", "same-site"):
        fields = {**browser.form, "answer": "approve once"}
        assert (await browser.post(fields, {"sec-fetch-site": site})).status_code == 403
    assert (await pages.now(found)).status == "pending"
    assert (await browser.press()).status_code == 200


async def test_the_seal_of_one_question_does_not_answer_another(pages: Pages, browser: Browser) -> None:
    first, second = await pages.ask(), await pages.ask()
    await browser.open(await pages.link(first))
    seal = browser.form["seal"]
    await browser.open(await pages.link(second))
    assert (await browser.press(seal=seal)).status_code == 403
    assert {(await pages.now(one)).status for one in (first, second)} == {"pending"}


async def test_another_persons_token_and_another_questions(pages: Pages, browser: Browser) -> None:
    anns, bobs, other = await pages.ask("ann"), await pages.ask("bob"), await pages.ask("ann")
    seals = Seals.of(TOKEN)
    stolen = {
        "bob's own": token_of(await pages.link(bobs)),
        "of another question": token_of(await pages.link(other)),
        "made for bob": seals.link(anns, bobs.asked),
        "made with another key": Seals.of("another").link(anns, anns.asked),
        "the mail's": anns.token,
        "the mail's whole": anns.mail_code,
        "the owner's": TOKEN,
        "nothing": "",
    }
    for name, token in stolen.items():
        page = await browser.open(f"{pages.origin}/actions/{anns.code}?t={token}")
        assert page.status_code in (401, 403), name
        assert "go there" not in page.text, name
        browser.at = f"{pages.origin}/actions/{anns.code}"
        answer = await browser.post({"t": token, "seal": "x", "answer": "approve once"})
        assert answer.status_code in (401, 403), name
    assert (await pages.now(anns)).status == "pending"


async def test_a_forged_session_is_nobody(pages: Pages, browser: Browser) -> None:
    found = await pages.ask("owner")
    good = Seals.of(TOKEN).session(0.0)
    until, nonce, mac = good.split(".")
    for cookie in (good, f"9{until}.{nonce}.{mac}", "..", "", f"{until}.{nonce}", Seals.of("x").session(1e12)):
        browser.client.cookies.set("nightporter_owner", cookie)
        page = await browser.open(f"{pages.origin}/actions/{found.code}")
        assert (page.status_code, "go there" in page.text) == (401, False), cookie


async def test_an_answer_sent_again_changes_nothing(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    await browser.open(await pages.link(found))
    assert (await browser.press()).status_code == 200
    for answer in ("approve once", "deny deny"):
        again = await browser.press(answer)
        assert (again.status_code, "Already approved" in again.text) == (409, True)
    assert (pages.rows(), len(pages.woken)) == (1, 1)
    assert (await pages.now(found)).choice == "once"


async def test_who_was_blocked_since_answers_nothing(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    await browser.open(await pages.link(found))
    await pages.database.write(lambda c: c.execute(text("UPDATE user_account SET blocked = true")))
    assert (await browser.press()).status_code == 403
    assert (await pages.now(found)).status == "pending"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></p><form action=https://evil.test><button>",
    '"><img src=x onerror=alert(1)>',
    "</textarea><iframe srcdoc='x'>",
    "javascript:alert(1) &amp;lt;b&amp;gt; '\" `",
]


@pytest.mark.parametrize("words", HOSTILE)
async def test_what_the_request_says_stays_text(pages: Pages, browser: Browser, words: str) -> None:
    plain = await pages.ask(request={"a": "b"}, text="x")
    expected, hostile = Tags(), Tags()
    expected.feed((await browser.open(await pages.link(plain))).text)
    found = await pages.ask(request={words: [words]}, text=words)
    page = await browser.open(await pages.link(found))
    hostile.feed(page.text)
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in expected.tags]
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)
    # A change that is refused is shown again, and what became of it at the end.
    for answer, status in ((f"nonsense{words}", 422), (words, 200)):
        shown, after = await browser.press(instead=answer), Tags()
        after.feed(shown.text)
        assert (shown.status_code, words in html.unescape(shown.text)) == (status, True)
        assert {tag for tag, _ in after.tags} <= {tag for tag, _ in expected.tags}
        assert not any("evil" in str(attributes) for tag, attributes in after.tags if tag != "button")


async def test_nothing_in_the_request_turns_or_hides_its_neighbours(pages: Pages, browser: Browser) -> None:
    found = await pages.ask(request={"host": "a\u202emoc.elgoog\u2066b\u200b\u2028c"}, text="reach a\u202egro.b")
    page = await browser.open(await pages.link(found))
    assert not set("\u202e\u2066\u200b\u2028") & set(page.text)
    assert "a\\u202emoc.elgoog" in page.text


async def test_a_body_that_is_no_form_or_has_no_end(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    link = await pages.link(found)
    await browser.open(link)
    for body, kind, status in (
        (b"{}", "application/json", 415),
        (b"a=b&" * 100, "application/x-www-form-urlencoded", 400),
        (b"a" * 300_000, "application/x-www-form-urlencoded", 413),
        (b"t=%00%ff", "application/x-www-form-urlencoded", 403),
        (b"", "application/x-www-form-urlencoded", 401),
    ):
        answer = await browser.client.post(browser.at, content=body, headers={"content-type": kind})
        assert answer.status_code == status, body[:20]
    assert (await browser.client.get(f"{pages.origin}/actions/%00%F0%9F/..%2f")).status_code in (401, 404)
    assert urlsplit(link).path == urlsplit(browser.at).path
    assert (await pages.now(found)).status == "pending"
