"""The page behind a question's link: it shows exactly what is asked, and is answered by its buttons, once."""

from __future__ import annotations

import html
from collections.abc import AsyncIterator

import pytest

from gateway.email import render as email_render
from gateway.slack import render as slack_render
from gateway.telegram import render as telegram_render
from tests.approval_pages import PAGE, TOKEN, Browser, Pages, browsing, serving
from workspace_store import approvals
from workspace_store.approvals import APPROVE, DENY, FOR_AN_HOUR
from workspace_store.database import Database


@pytest.fixture
async def pages(database: Database) -> AsyncIterator[Pages]:
    async with serving(database) as found:
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as found:
        yield found


async def test_what_is_asked_is_shown_exactly_and_a_press_answers_it(pages: Pages, browser: Browser) -> None:
    request = {"command": "rm -rf ./build", "times": 2}
    found = await pages.ask(request=request, text="run it", choices=(APPROVE, FOR_AN_HOUR, DENY))
    page = await browser.open(await pages.link(found))
    assert page.status_code == 200
    shown = html.unescape(page.text)
    assert "May I run it?" in shown
    assert '"command": "rm -rf ./build"' in shown
    assert found.request_hash in shown
    assert "You answer as Ann." in shown
    assert [choice.label in shown for choice in found.choices] == [True] * 3
    answer = await browser.press("approve hour")
    assert (answer.status_code, "Approved for 1 hour" in answer.text) == (200, True)
    now = await pages.now(found)
    assert (now.status, now.choice, now.decided_via, now.decided_by) == ("approved", "hour", "page", found.asked)
    assert [woken.principal for woken in pages.woken] == [found.principal]
    assert (pages.rows(), len(pages.rung)) == (1, 1)


async def test_denying(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    await browser.open(await pages.link(found))
    assert (await browser.press("deny deny", instead="elsewhere")).status_code == 200
    now = await pages.now(found)
    assert (now.status, now.request) == ("denied", {"go": "there"})


async def test_something_else_is_approved_instead(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    await browser.open(await pages.link(found))
    wrong = await browser.press(instead="nonsense")
    assert wrong.status_code == 422
    assert "say a place" in wrong.text
    assert (await pages.now(found)).status == "pending"
    assert (await browser.press(instead=" over\r\nthere ")).status_code == 200
    now = await pages.now(found)
    assert (now.status, now.request) == ("approved", {"go": "over\nthere"})
    assert now.request_hash == approvals.hash_request(now.request) != found.request_hash


async def test_what_cannot_be_changed_offers_no_field_for_it(pages: Pages, browser: Browser) -> None:
    found = await pages.ask(kind="y")
    assert "<textarea" not in (await browser.open(await pages.link(found))).text
    assert "as it is" in (await browser.press(instead="other")).text
    assert (await pages.now(found)).status == "pending"


async def test_after_the_answer_the_link_says_what_was_decided(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    link = await pages.link(found)
    await browser.open(link)
    await browser.press()
    again = await browser.open(link)
    assert again.status_code == 409
    assert "Already approved by Ann" in again.text
    assert "<form" not in again.text


async def test_what_has_expired_is_explained_and_not_decided(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    link = await pages.link(found)
    await browser.open(link)
    await pages.expire(found)
    for answer in (await browser.press(), await browser.open(link)):
        assert answer.status_code == 410
        assert "Too late" in answer.text
    assert pages.rows() == 0


async def test_what_was_changed_meanwhile_is_not_decided_by_the_old_page(pages: Pages, browser: Browser) -> None:
    found = await pages.ask()
    link = await pages.link(found)
    await browser.open(link)
    await pages.database.write(lambda c: approvals.amend(c, found.id, request={"go": "home"}, text="go home"))
    assert (await browser.press()).status_code == 403
    assert "newer question" in (await browser.open(link)).text
    now = await pages.now(found)
    assert now.status == "pending"
    assert "go home" in (await browser.open(await pages.link(now))).text


async def test_two_questions_open_at_once_are_both_answered(pages: Pages, browser: Browser) -> None:
    first, second = await pages.ask(), await pages.ask()
    await browser.open(await pages.link(first))
    form, at = browser.form, browser.at
    await browser.open(await pages.link(second))
    assert (await browser.press()).status_code == 200
    browser.at = at
    assert (await browser.post({**form, "answer": "deny"})).status_code == 200
    assert (await pages.now(first)).status == "denied"


async def test_the_owner_signs_in_with_the_local_token(pages: Pages, browser: Browser) -> None:
    found = await pages.ask("owner")
    address = f"{pages.origin}/actions/{found.code}"
    first = await browser.open(address)
    assert (first.status_code, "go there" in first.text) == (401, False)
    assert (await browser.client.post(f"{address}/sign-in", data={"owner": "guess"})).status_code == 401
    signed_in = await browser.client.post(f"{address}/sign-in", data={"owner": f" {TOKEN}\n"})
    assert (signed_in.status_code, "go there" in signed_in.text) == (200, True)
    (cookie,) = [line for line in signed_in.history[0].headers.get_list("set-cookie") if "owner" in line]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    await browser.open(address)
    assert (await browser.press()).status_code == 200
    assert (await pages.now(found)).decided_by == found.asked


async def test_the_owner_is_told_what_is_not_theirs_to_answer(pages: Pages, browser: Browser) -> None:
    await pages.hear("owner")
    found = await pages.ask("ann")
    address = f"{pages.origin}/actions/{found.code}"
    page = await browser.client.post(f"{address}/sign-in", data={"owner": TOKEN})
    assert (page.status_code, "not yours" in page.text, "go there" in page.text) == (403, True, False)
    assert (await browser.open(f"{pages.origin}/actions/ZZZZZZZZ")).status_code == 404


async def test_a_link_goes_below_questions_that_one_person_reads_and_nothing_else(pages: Pages) -> None:
    found = await pages.ask()
    assert len(PAGE.findall(await pages.sent(found))) == 1
    in_a_room = await pages.hear("ann", where="#all", shared=True)
    place = await pages.database.read(lambda c: approvals.place_of(c, in_a_room.principal))
    assert place is not None
    asked = await pages.database.write(
        lambda c: approvals.request(
            c, key="room", kind="x", principal=in_a_room.principal, at=place, request=1, text="go"
        )
    )
    assert PAGE.findall(await pages.sent(asked)) == []


async def test_the_link_arrives_whole_on_every_channel(pages: Pages) -> None:
    found = await pages.ask()
    sent, link = await pages.sent(found), await pages.link(found)
    mail = email_render.render(sent)
    assert link in mail.text.split()
    assert f'href="{link}"' in mail.html
    assert link in str(slack_render.render(sent))
    assert link in str(telegram_render.render(sent))


async def test_nothing_may_keep_frame_or_index_the_page_or_learn_its_address(pages: Pages, browser: Browser) -> None:
    page = await browser.open(await pages.link(await pages.ask()))
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert (page.headers["x-frame-options"], page.headers["x-content-type-options"]) == ("DENY", "nosniff")
    assert "<script" not in page.text
