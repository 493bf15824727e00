"""What sandboxes are shown of the machine's apt sources."""

from __future__ import annotations

from pathlib import Path

from sandbox_runner import apt_sources

STANZAS = """\
# a comment
Types: deb
URIs: http://archive.example/debian
 https://user:hunter2@paid.example/debian https://other.example/debian
Suites: stable
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
Enabled: no
URIs: http://off.example/
Suites: stable

Types: deb
URIs: file:/srv/debian
Suites: stable
"""


def machine(folder: Path) -> Path:
    (folder / "etc/apt/sources.list.d").mkdir(parents=True)
    (folder / "etc/apt/sources.list").write_text(
        "# deb http://commented.example/ x\ndeb http://one.example/debian stable main\n"
        "deb-src http://one.example/debian stable main\ndeb [arch=amd64] https://two.example/ ./\n"
        "deb https://token@private.example/ stable main\ndeb https://x.example/?key=hunter2 stable main\n"
        "deb cdrom:[Debian]/ stable main\n"
    )
    (folder / "etc/apt/sources.list.d/more.list").write_text("deb http://three.example/ stable main\n")
    (folder / "etc/apt/sources.list.d/some.sources").write_text(STANZAS)
    (folder / "etc/apt/auth.conf").write_text("machine one.example login me password hunter2\n")
    return folder


def test_archives_of_the_web_and_nothing_that_may_be_a_secret(tmp_path: Path) -> None:
    found = apt_sources.read(machine(tmp_path))
    assert found[apt_sources.LIST].splitlines() == [
        "deb http://one.example/debian stable main",
        "deb [arch=amd64] https://two.example/ ./",
        "deb http://three.example/ stable main",
    ]
    stanza = found[apt_sources.STANZAS]
    assert "URIs: http://archive.example/debian https://other.example/debian\nSuites: stable\n" in stanza
    assert " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n" in stanza
    for secret in ("hunter2", "token", "off.example", "file:", "cdrom", "deb-src"):
        assert secret not in "".join(found.values())


def test_a_machine_without_apt(tmp_path: Path) -> None:
    assert apt_sources.read(tmp_path) == {}
