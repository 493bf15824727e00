"""The one reading of markdown that all channels share."""

from __future__ import annotations

from gateway.rendering.tree import is_blank, read_markdown, target, words


def test_only_harmless_addresses_are_targets() -> None:
    tree = read_markdown("[a](https://example.org) [b](mailto:a@example.org) [c](ftp://example.org) [d](//example.org)")
    links = [node for node in tree.walk() if node.type == "link"]
    assert [target(link) for link in links] == ["https://example.org", "mailto:a@example.org", "", ""]


def test_raw_html_is_text() -> None:
    assert (
        words(read_markdown("Hello <b>x</b> <script>alert(1)</script>")) == "Hello <b>x</b> <script>alert(1)</script>"
    )


def test_a_channel_may_disarm_its_broadcast_tokens_everywhere() -> None:
    tree = read_markdown("`@all` and @all", neutralise=lambda text: text.replace("@all", "@ all"))
    assert words(tree) == "@ all and @ all"


def test_nothing_to_send_is_known_as_such() -> None:
    assert is_blank("\n\n   \n\u200b")
    assert not is_blank("x")
