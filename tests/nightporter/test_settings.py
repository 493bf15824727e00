"""Settings: the file, the environment over it, and one sentence for each thing that is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from agent.models import names
from nightporter.errors import ConfigurationError
from nightporter.settings import SECTIONS, Settings, load, variables
from workspace_store.section import Address


def read(home: Path, toml: str = "", **environment: str) -> Settings:
    (home / "nightporter.toml").write_text(toml, "utf-8")
    return load({"NIGHTPORTER_HOME": str(home), "PATH": "/bin", **environment})


def test_defaults_need_no_file(tmp_path: Path) -> None:
    settings = load({"NIGHTPORTER_HOME": str(tmp_path / "new")})
    assert settings.database_url == f"sqlite:///{tmp_path}/new/nightporter.db"
    assert settings.volumes_url == f"file://{tmp_path}/new/volumes"
    assert settings.http.listen == Address("127.0.0.1", 8787)
    assert settings.email.listen == Address("127.0.0.1", 8025)
    assert settings.runner.concurrency == 64
    assert settings.sandbox.idle_seconds == 300


def test_environment_goes_before_the_file(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        'redis_url = "redis://a:1"\n[http]\nlisten = "127.0.0.1:1"\ntoken = "from-file"\n[sandbox]\nmemory_mb = 7',
        NIGHTPORTER_HTTP__LISTEN="[::1]:99",
        NIGHTPORTER_REDIS_URL="redis://b:2",
    )
    assert settings.http.listen == Address("::1", 99)
    assert str(settings.http.listen) == "[::1]:99"
    assert (settings.redis_url, settings.http.token, settings.sandbox.memory_mb) == ("redis://b:2", "from-file", 7)


@pytest.mark.parametrize("written", ['["email:ann@Example.org", "slack:T1/U1"]', "email:ann@EXAMPLE.org, slack:T1/U1,"])
def test_a_list_in_the_environment(tmp_path: Path, written: str) -> None:
    settings = read(tmp_path, NIGHTPORTER_ACCESS__ADMINS=written)
    assert settings.access.admins == ("email:ann@example.org", "slack:T1/U1")
    assert settings.access.admin_identities()[1] == ("slack", "T1", "U1")


def test_fallbacks_are_names_or_tables(tmp_path: Path) -> None:
    settings = read(tmp_path, '[engine]\nfallbacks = ["a:b", {model = "c:d", base_url = "http://127.0.0.1:1/v1"}]')
    assert [(f.model, f.base_url) for f in settings.engine.fallbacks] == [("a:b", ""), ("c:d", "http://127.0.0.1:1/v1")]


def test_a_secret_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    settings = read(tmp_path, '[engine]\napi_key_file = "key"')
    assert settings.engine.api_key == "s3cret"
    assert "s3cret" not in repr(settings)


def test_a_secret_in_the_environment_replaces_the_file_named_in_the_toml(tmp_path: Path) -> None:
    assert read(tmp_path, '[http]\ntoken_file = "gone"', NIGHTPORTER_HTTP__TOKEN="t").http.token == "t"


WRONG = {
    "[http]\nlisen = 1": "http.lisen in {file} is not a setting; did you mean http.listen?",
    "[htpp]\nlisten = 1": "htpp in {file} is not a setting; did you mean http?",
    "listen = 1": "listen in {file} is not a setting; did you mean http.listen?",
    "zzz = 1": "zzz in {file} is not a setting; docs/reference/settings.md lists all that can be set.",
    "[http]\nlisten = 'foo'": "http.listen (from {file}): 'foo' is not host:port; write for example 127.0.0.1:8787.",
    "[http]\nlisten = 'a:65536'": "http.listen (from {file}): 'a:65536' is not host:port; write for example"
    " 127.0.0.1:8787.",
    "http = 3": "http (from {file}): has to be a table, [http].",
    "[runner]\nconcurrency = 0": "runner.concurrency (from {file}): has to be greater than 0.",
    "[sandbox]\ncpus = nan": "sandbox.cpus (from {file}): has to be a finite number.",
    "[access]\npolicy = 'all'": "access.policy (from {file}): has to be 'pairing', 'allowlist' or 'open'.",
    "[access]\nadmins = ['ann']": "access.admins.0 (from {file}): 'ann' names nobody; write email:ann@example.org,"
    " slack:T1/U1 (team and user) or telegram:42.",
    "[email]\ntls_key = 'k'": "email (from {file}): tls_certificate and tls_key belong together; set both or none.",
    "[email]\nrelay = 'http://x'": "email.relay (from {file}): it is not a URL of the right kind; it has to start with"
    " smtp:// or smtps://.",
    "[http]\ntoken = 'a'\ntoken_file = 'b'": "http (from {file}): both token and token_file are set; keep one of them.",
    "[http]\ntoken_file = 'no'": "http (from {file}): token_file names {home}/no, which cannot be read (No such file or"
    " directory); correct the path or its rights.",
    "home = '/'": "{file} sets home, which only the environment variable NIGHTPORTER_HOME can; take the line out.",
}


@pytest.mark.parametrize("toml", WRONG)
def test_what_is_wrong_in_the_file_is_one_sentence(tmp_path: Path, toml: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, toml)
    assert str(error.value) == WRONG[toml].format(file=tmp_path / "nightporter.toml", home=tmp_path)


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("NIGHTPORTER_HTTP__LISEN", "did you mean NIGHTPORTER_HTTP__LISTEN?"),
        ("NIGHTPORTER_DATABASEURL", "did you mean NIGHTPORTER_DATABASE_URL?"),
        ("NIGHTPORTER_HTTP_LISTEN", "did you mean NIGHTPORTER_HTTP__LISTEN?"),
        ("NIGHTPORTER_Q", "docs/reference/settings.md lists all that can be set."),
    ],
)
def test_an_unknown_variable_is_an_error(tmp_path: Path, variable: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^The environment variable {variable} sets nothing; ") as error:
        read(tmp_path, **{variable: "1"})
    assert str(error.value).endswith(said)


def test_a_bad_value_names_the_variable_it_came_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, NIGHTPORTER_RUNNER__CONCURRENCY="many")
    assert str(error.value) == "runner.concurrency (from NIGHTPORTER_RUNNER__CONCURRENCY): has to be a valid integer."


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, "[http]\nlisten = 'x'\nx = 1", NIGHTPORTER_NO="1")
    assert len(error.value.sentences) == 3


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigurationError, match="is not a folder; set NIGHTPORTER_HOME"):
        load({"NIGHTPORTER_HOME": str(tmp_path / "f")})


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"is not valid TOML: .*line 1"):
        read(tmp_path, "listen: 1")


def test_every_setting_has_a_variable_that_is_accepted(tmp_path: Path) -> None:
    names = variables()
    assert names["NIGHTPORTER_EMAIL__MAX_BYTES"] == ("email", "max_bytes")
    assert len(names) > 50


HOW_TO = (Path(__file__).parents[2] / "docs" / "how-to" / "choose-a-model.md").read_text("utf-8")


@pytest.mark.parametrize("toml", re.findall(r"^```toml\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL))
def test_every_model_of_the_how_to_can_be_asked(tmp_path: Path, toml: str) -> None:
    key = tmp_path / "key"
    key.write_text("a-key\n")
    key.chmod(0o600)
    found = read(tmp_path, re.sub(r'"/etc/nightporter/[a-z]+-key"', f'"{key}"', toml))
    first, *others = names.of_settings(found.engine)
    assert first.model
    assert ":" not in first.model
    assert first.api_key == ("a-key" if "api_key_file" in toml else "")
    assert len(others) == len(found.engine.fallbacks)


@pytest.mark.parametrize(
    ("toml", "variable", "says"),
    [
        ('hooks = "x"', "NIGHTPORTER_HOOKS__CI__SECRET", "hooks "),
        ('[http]\ntoken_file = "~nobody-here/token"', "", "~nobody-here/token names the home of nobody known here"),
        ('[agent]\nfile = "~nobody-here/agent.py"', "", "names the home of nobody known here"),
        ('[agent]\nfile = "a\\u0000b"', "", "file holds a NUL character"),
        ("x = " + "[" * 5000, "", "is not valid TOML: its brackets are nested too deeply"),
        ("volumes_url = 0", "", "volumes_url "),
        ('[runner]\nhost = "a/b"', "", "write for example `host-1`"),
        ('[runner]\nhost = ".."', "", "write for example `host-1`"),
        (f'[runner]\nhost = "{"a" * 300}"', "", "write for example `host-1`"),
        ("database_url = []", "", "database_url "),
    ],
)
def test_what_is_no_setting_at_all_is_said_too(tmp_path: Path, toml: str, variable: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, toml, **({variable: "s"} if variable else {}))
    assert says in str(refused.value)


def test_brackets_without_end_in_the_environment_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"access\.admins"):
        read(tmp_path, NIGHTPORTER_ACCESS__ADMINS="[" * 100_000)


def _numbers() -> list[tuple[str, str]]:
    """Every setting that is a number."""
    return [
        (section, key)
        for section, model in SECTIONS.items()
        for key, field in model.model_fields.items()
        if {int, float} & {field.annotation, *get_args(field.annotation)}
    ]


@pytest.mark.parametrize("written", ["-1", "9" * 27, "nan", "inf", "true"])
def test_no_number_is_taken_that_nothing_can_be_counted_with(tmp_path: Path, written: str) -> None:
    wrong = {f"{section}.{key}" for section, key in _numbers()}
    sections = {section: [key for at, key in _numbers() if at == section] for section, _ in _numbers()}
    assert len(wrong) > 30
    toml = "\n".join(
        f"[{section}]\n" + "\n".join(f"{k} = {written}" for k in keys) for section, keys in sections.items()
    )
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, toml)
    assert {sentence.partition(" ")[0] for sentence in refused.value.sentences} == wrong
