"""What a person or a program reads of egress."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sandbox_runner.egress.names import authority
from sandbox_runner.egress.rules import SAFE_METHODS
from workspace_store.effects import TOOLS, Effect
from workspace_store.egress_grants import Grant


def place(host: str, port: int) -> str:
    """A host, with its port unless that goes without saying."""
    return host if port in (0, 80, 443) else authority(host, port)


def not_allowed(host: str, port: int) -> str:
    return f"{place(host, port)} is not on the list of hosts that this sandbox may reach"


def method_not_allowed(method: str, host: str) -> str:
    return f"{method} is not among the methods allowed at {host}"


def not_granted(method: str, host: str) -> str:
    return f"the credential for {host} is not granted for {method} at this path"


def denied(host: str) -> str:
    return f"a person refused {host} for now"


def bad_address(host: str, address: str, why: str) -> str:
    return f"{host} is {address}, which {why}" if host != address else f"{host} {why}"


def not_found(host: str) -> str:
    return f"{host} cannot be found"


def not_reached(host: str, port: int, why: str) -> str:
    return f"{authority(host, port)} cannot be reached ({why})"


def over_budget(what: str) -> str:
    return f"today's budget of {what} is used up"


def stale() -> str:
    return "this sandbox no longer has its workspace; another one does"


def cannot_record() -> str:
    return "the request cannot be recorded now, so it does not go out"


def no_server_name(host: str) -> str:
    return f"the TLS client does not name {host} (no SNI)"


def other_server_name(host: str, asked: str) -> str:
    return f"the TLS client asks for {asked[:100]} in a tunnel to {host}"


def hidden_server_name() -> str:
    return "the TLS client hides which server it asks for (ECH)"


def not_tls(host: str, port: int) -> str:
    return f"the tunnel to {authority(host, port)} carries something other than TLS"


def other_host(host: str, named: str) -> str:
    return f"the Host header names {named[:100]} in a request for {host}"


def how_to_allow(host: str, port: int, approval: str | None) -> str:
    by_settings = f"an administrator adds {place(host, port)!r} to egress.allow"
    if approval is None:
        return f"Ask the person to allow it, or {by_settings}."
    return f"The person has been asked (approval {approval}): try again once it is approved; or {by_settings}."


NOTES = 6
HOW_PRIVATE = "An administrator names the host in egress.allow_private if it is meant to be private."
HOW_BUDGET = "It is full again at 00:00 UTC; egress.daily_requests and egress.daily_mb set it."
HOW_NOT_TLS = "Use https, or an administrator adds 'tcp://HOST:PORT' to egress.allow."
HOW_METHOD = "Use an allowed method, or an administrator adds it to the entry in egress.allow."
HOW_AGAIN = "Try again in a moment."
HOW_PLAIN = "Send it as RFC 9112 and RFC 9110 say."


def cut_off() -> str:
    return "the egress proxy ended while this was under way"


def no_answer(why: str) -> str:
    return f"the server gave no answer: {why}"


def question(host: str, port: int) -> str:
    """Completes "May I …?"."""
    return f"let your sandbox reach `{place(host, port)}`"


def now_allowed(host: str, port: int) -> str:
    return f"Your sandbox may reach {place(host, port)} from now on; run the command again."


def now_refused(host: str) -> str:
    return f"Your sandbox is refused {host} for an hour without asking again."


def note(effect: Effect) -> str:
    """What a command's result says of a request that was refused, or whose end nobody saw."""
    where = place(effect.host, effect.port)
    if effect.status == "refused":
        return f"(Egress refused {where}: {effect.reason}.)"
    if effect.proxy == TOOLS:
        return f"(Nobody saw how {what(effect)} ended, so it may have been done: {effect.reason}.)"
    return f"(Egress: nobody saw how {what(effect)} ended, so it may have been done: {effect.reason}.)"


def notes(effects: Sequence[Effect]) -> str:
    """What a result says of all that nobody has been told of: each thing once, a few of them; uncertain ones first."""
    said = list(dict.fromkeys(map(note, sorted(effects, key=lambda effect: effect.status == "refused"))))
    more = [f"(Egress: {len(said) - NOTES} more; `/egress` lists them.)"] if len(said) > NOTES else []
    return "\n".join([*said[:NOTES], *more])


def what(effect: Effect) -> str:
    if effect.proxy == TOOLS:
        return f"a call of `{effect.host}`"
    where = place(effect.host, effect.port)
    return f"a connection to {where}" if effect.method == "CONNECT" else f"{effect.method} to {where}"


def so_far(effects: Sequence[Effect]) -> str:
    """What is known of the outside after a tool was cut off; empty: nothing went out."""
    unsafe = [effect for effect in effects if effect.method not in SAFE_METHODS]
    return f"This turn has reached outside: {lines(unsafe)}." if unsafe else ""


def lines(effects: Sequence[Effect]) -> str:
    """Effects in a line of text, the first ten of them."""
    shown = "; ".join(_line(effect) for effect in effects[:10])
    return f"{shown}; and {len(effects) - 10} more" if len(effects) > 10 else shown


def _line(effect: Effect) -> str:
    if effect.status == "settled" and effect.proxy == TOOLS:
        return f"{what(effect)} ({effect.reason or 'done'})"
    if effect.status == "settled":
        answer = f"answered with {effect.outcome}" if effect.outcome else f"{effect.bytes_out} bytes sent"
        return f"{what(effect)} ({answer})"
    return f"{what(effect)} ({effect.status})"


def listed(effect: Effect) -> str:
    """A line of ``/egress``."""
    at = datetime.fromtimestamp(effect.at / 1e6, UTC)
    outcome = f" → {effect.outcome}" if effect.outcome else ""
    reason = f": {effect.reason}" if effect.reason else ""
    if effect.proxy == TOOLS:
        return f"- {at:%m-%d %H:%M:%S} {what(effect)} {effect.status}{reason}"
    return (
        f"- {at:%m-%d %H:%M:%S} `{effect.method} {authority(effect.host, effect.port)}` {effect.status}{outcome}, "
        f"{effect.bytes_out} bytes out, {effect.bytes_in} in{reason}"
    )


def granted(grant: Grant) -> str:
    until = (
        "always" if grant.until is None else f"until {datetime.fromtimestamp(grant.until / 1e6, UTC):%m-%d %H:%M} UTC"
    )
    return f"- `{place(grant.host, grant.port)}` {'allowed' if grant.allowed else 'refused'} {until}"


NOTHING_YET = "Your sandbox has reached nothing outside yet."
NO_SUCH_GRANT = "Nothing was said about that host; `/egress` lists what was."
HOW_TO_REVOKE = "`/egress revoke HOST` takes an answer about a host back."


def revoked(host: str) -> str:
    return f"Taken back: {host}. Your sandbox has to ask for it again."
