# ruff: noqa: E501
"""Markdown as the two parts of a mail."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from gateway.email.compose import Thread, compose
from gateway.email.render import render

ROOT = Path(__file__).resolve().parents[3]
CASES = Path(os.environ.get("NIGHTPORTER_CORPUS") or ROOT.parent / "shared" / "corpus") / "render" / "cases.jsonl"


def test_bold_links_lists_and_tables_read_well_in_both_parts() -> None:
    text, html = render(
        "# Hi\n\nSome **bold** [link](https://example.org/?a=1&b=2):\n\n1. one\n2. two\n   - deep\n\n| a | b |\n|---|--:|\n| x | 10 |"
    )
    assert text == (
        "Hi\n==\n\nSome *bold* link <https://example.org/?a=1&b=2>:\n\n1. one\n2. two\n   - deep\n\na  b\n-  --\nx  10\n"
    )
    assert '<a href="https://example.org/?a=1&amp;b=2">link</a>' in html
    assert "<table" in html
    assert "text-align:right" in html


def test_raw_html_and_dangerous_schemes_never_become_markup() -> None:
    _, html = render(
        '<img src=x onerror=alert(1)> [x](javascript:alert(1)) ![p](https://example.org/p.png "\\" onload=1")'
    )
    assert "<img" not in html
    assert "javascript:" not in html.replace("(javascript:alert(1))", "")
    assert 'href="https://example.org/p.png"' in html


def test_hostile_markdown_takes_bounded_time() -> None:
    begun = time.process_time()
    for hostile in ("[" * 20_000, "*a **b " * 10_000, "> " * 5_000 + "x", "`" * 30_000, "|" * 20_000, "<" * 50_000):
        render(hostile)
    assert time.process_time() - begun < 20


def cases() -> list[dict[str, Any]]:
    if not CASES.exists():
        pytest.skip(f"no render cases at {CASES}; set NIGHTPORTER_CORPUS to the corpus folder")
    lines = CASES.read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if any(key.startswith("email_") for key in case)]


def misses(case: dict[str, Any]) -> list[str]:
    text, html = render(case["markdown"])
    mail = compose(
        key=case["id"], own_address="porter@example.org", to=["ann@example.org"], thread=Thread("x"), text=text, html=html,
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    read = message_from_bytes(mail.data, policy=policy.default)
    parts = {part.get_content_type(): part.get_content() for part in read.walk() if not part.is_multipart()}
    plain, rich = (parts[kind].replace("\r\n", "\n") for kind in ("text/plain", "text/html"))
    out = [f"{want!r} not in text" for want in case.get("email_text_contains", []) if want not in plain]
    out += [f"{want!r} in text" for want in case.get("email_text_not_contains", []) if want in plain]
    out += [f"{want!r} not in html" for want in case.get("email_html_contains", []) if want not in rich]
    out += [f"{want!r} in html" for want in case.get("email_html_not_contains", []) if want in rich]
    out += [
        f"none of {some} in html" for some in case.get("email_html_or", []) if not any(want in rich for want in some)
    ]
    limit = case.get("email_max_line")
    if limit and max(map(len, mail.data.split(b"\r\n"))) > limit:
        out.append("a line is too long")
    return out


def test_the_render_cases_look_as_expected(capsys: pytest.CaptureFixture[str]) -> None:
    found = {case["id"]: misses(case) for case in cases()}
    bad = {name: why for name, why in found.items() if why}
    with capsys.disabled():
        print(f"\nemail render cases {1 - len(bad) / len(found):.1%}", *bad.items(), sep="\n")
    assert len(bad) <= 0.05 * len(found)
