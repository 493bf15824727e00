"""Templates put values in as data, and understand nothing but pointers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.hooks import template
from gateway.settings import HookSettings

BODY = {"a": {"b/c": 1, "~": "tilde", "list": ["x", {"y": True}]}, "words": "two words", "": "empty name"}


@pytest.mark.parametrize(
    ("words", "then"),
    [
        ("{/a/b~1c}", "1"),
        ("{/a/~0}", "tilde"),
        ("{/a/list/0} {/a/list/1/y}", "x true"),
        ("{/a/list}", '“["x",{"y":true}]”'),
        ("{/words}", "“two words”"),
        ("{/nothing/here}", "(nothing)"),
        ("{/a/list/7}", "(nothing)"),
        ("{/a/list/-1}", "(nothing)"),
        ("{/}", "“empty name”"),
        ("{hook} {id} {header:X-Event}", "ci d1 push"),
        ("{{/a}} }}", "{/a} }"),
    ],
)
def test_what_is_put_in(words: str, then: str) -> None:
    assert template.render(template.check(words), "ci", "d1", {"x-event": "push"}, BODY) == then


@pytest.mark.parametrize(
    "words", ["", "  ", "{a}", "{0}", "{a.__class__}", "{/a!r:>10}x{", "}", "{hook.__init__}", "{header:}",
              "$ echo {/a}", "  $ echo {hook}"],
)  # fmt: skip
def test_what_is_no_template_is_refused_at_the_start(words: str) -> None:
    with pytest.raises(ValidationError, match=r"write|leave"):
        HookSettings(secret="0123456789abcdef", template=words)


def test_a_command_without_values_is_one() -> None:
    assert HookSettings(secret="0123456789abcdef", template="$ ./deploy.sh").template == "$ ./deploy.sh"


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_value_is_more_than_one_bounded_line_that_ends_where_it_ends(value: Any) -> None:
    shown = template.render("{/v}", "h", "d", {}, {"v": value})
    assert len(shown) <= template.VALUE_CHARACTERS + 3
    assert "\n" not in shown
    assert template.PLAIN.fullmatch(shown) or shown == template.NOTHING or (
        shown[0], shown[-1], shown[1:-1].count("“"), shown[1:-1].count("”")
    ) == ("“", "”", 0, 0)  # fmt: skip
