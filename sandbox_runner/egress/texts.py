"""What a person or a program reads of egress."""

from __future__ import annotations

from sandbox_runner.egress.names import authority


def not_allowed(host: str, port: int) -> str:
    return f"{authority(host, port)} is not on the list of hosts that this sandbox may reach"


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
    entry = host if port in (80, 443) else authority(host, port)
    by_settings = f"an administrator adds {entry!r} to egress.allow"
    if approval is None:
        return f"Ask the person to allow it, or {by_settings}."
    return f"The person has been asked (approval {approval}): try again once it is approved; or {by_settings}."


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
    return f"let your sandbox reach `{authority(host, port)}`"


def now_allowed(host: str, port: int) -> str:
    return f"Your sandbox may reach {authority(host, port)} from now on; run the command again."


def now_refused(host: str) -> str:
    return f"Your sandbox is refused {host} for an hour without asking again."
