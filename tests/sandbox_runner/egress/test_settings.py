"""The grammar of the settings: what is wrong is an error at start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nightporter.errors import ConfigurationError
from nightporter.settings import load
from sandbox_runner.egress import rules
from sandbox_runner.egress.rules import Rule
from sandbox_runner.egress.settings import EgressSettings


@pytest.mark.parametrize(
    ("entry", "covered", "not_covered"),
    [
        ("example.org", [("example.org", 80), ("example.org", 443)], [("example.org", 22), ("www.example.org", 443)]),
        ("Example.ORG.", [("example.org", 443)], [("xexample.org", 443)]),
        (
            "*.example.org",
            [("a.example.org", 443), ("a.b.example.org", 80)],
            [("example.org", 443), ("aexample.org", 80)],
        ),
        ("example.org:8443", [("example.org", 8443)], [("example.org", 443)]),
        ("bücher.example", [("xn--bcher-kva.example", 443)], [("bucher.example", 443)]),
        ("192.0.2.7", [("192.0.2.7", 80)], [("192.0.2.8", 80)]),
        ("[2001:DB8::7]:8080", [("2001:db8::7", 8080)], [("2001:db8::7", 443)]),
        ("*.corp", [("git.corp", 443)], [("corp", 443)]),
    ],
)
def test_an_entry_covers(entry: str, covered: list[tuple[str, int]], not_covered: list[tuple[str, int]]) -> None:
    rule = Rule.parse(entry)
    assert [rule.covers(*place) for place in covered] == [True] * len(covered)
    assert [rule.covers(*place) for place in not_covered] == [False] * len(not_covered)


def test_methods_of_several_entries_add_up() -> None:
    entries = [Rule.parse(entry) for entry in ("GET|HEAD a.example", "POST a.example:443", "b.example")]
    assert rules.allowed(entries, "a.example", 443).methods == {"GET", "HEAD", "POST"}
    assert rules.allowed(entries, "a.example", 80).methods == {"GET", "HEAD"}
    assert rules.allowed(entries, "b.example", 80).methods is None
    assert not rules.allowed(entries, "c.example", 80)


@pytest.mark.parametrize(
    "entry",
    ["*", "*.com", "a.*.org", "https://example.org", "example.org/path", "user@example.org", "example.org:0",
     "example.org:70000", "example.org:http", "127.1", "0x7f.1", "get example.org", "CONNECT example.org",
     "TRACE example.org", "GET POST example.org", "tcp://example.org", "GET tcp://example.org:22", "", "a..b",
     "*.1.2.3.4"],
)  # fmt: skip
def test_a_bad_entry_is_an_error_that_says_how_to_write_it(entry: str) -> None:
    with pytest.raises(ValidationError, match=r"as in|for example|would let too much"):
        EgressSettings(allow=(entry,))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"value": ""}, "needs value or value_file"),
        ({"value": "a\r\nX-Evil: b"}, "one line"),
        ({"value": "ключ"}, "one line"),
        ({"header": "Host"}, "not a header"),
        ({"header": "X: y"}, "not a header"),
        ({"host": "https://api.example"}, "more than a host"),
        ({"methods": ["CONNECT"]}, "cannot|can be granted"),
        ({"paths": ["repos"]}, "not a path"),
        ({"paths": []}, "grants nothing"),
        ({"env": "A B"}, "environment variable"),
    ],
)
def test_a_bad_credential_is_an_error(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EgressSettings.model_validate({"credentials": [{"host": "api.example", "value": "Bearer x", **changes}]})


def test_a_bad_entry_stops_the_start_and_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "nightporter.toml").write_text('[egress]\nallow = ["https://example.org"]\n')
    with pytest.raises(ConfigurationError, match=r"egress\.allow.*host and a port"):
        load({"NIGHTPORTER_HOME": str(tmp_path)})


def test_a_secret_from_a_file_is_in_no_text_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "api.token").write_text("Bearer from-a-file\n")
    (tmp_path / "nightporter.toml").write_text(
        '[[egress.credentials]]\nhost = "api.example"\nvalue_file = "api.token"\nenv = "API_TOKEN"\n'
    )
    settings = load({"NIGHTPORTER_HOME": str(tmp_path)})
    assert settings.egress.keyring().credentials[0].value == "Bearer from-a-file"
    assert "from-a-file" not in repr(settings)
    assert "from-a-file" not in str(settings.egress.environment())
    assert set(settings.egress.environment()) == {"API_TOKEN"}


def test_a_loopback_name_that_is_allowed_is_this_machines() -> None:
    settings = EgressSettings(allow=("127.0.0.1:8080",), allow_private=("127.0.0.1",))
    assert settings.environment()["NO_PROXY"] == "localhost,::1"
    assert "NO_PROXY" not in EgressSettings(allow=("127.0.0.1:8080",)).environment()
