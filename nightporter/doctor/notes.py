"""What is not wrong, but worth knowing of the settings as they are."""

from __future__ import annotations

from collections.abc import Iterator

from agent import engines, prices
from agent.models import names
from nightporter.doctor.check import Finding
from nightporter.doctor.stores import dns
from nightporter.settings import Settings


def notes(settings: Settings) -> Iterator[Finding]:
    """Mail authentication, access, the engine."""
    if settings.email.authentication == "dmarc":
        yield Finding("email.authentication", "ok", "`dmarc` checks who wrote a mail by SPF, DKIM and alignment.")
        yield dns(settings)
    elif settings.email.authentication == "trusted_relay":
        yield Finding(
            "email.authentication",
            "warn",
            f"`trusted_relay` believes every sender: whoever can reach {settings.email.listen} can be anyone.",
            "Let nothing but a mail server that checks DMARC connect to that port; otherwise set `dmarc`.",
        )
    elif settings.email.authentication == "none":
        yield Finding(
            "email.authentication",
            "warn",
            f"`none` believes every sender: whoever can reach {settings.email.listen} can be anyone, also an admin.",
            "Use it for tests and closed networks only; set `dmarc` everywhere else.",
        )
    if settings.access.policy == "pairing":
        yield Finding(
            "access.policy",
            "ok",
            "`pairing`: a proven stranger gets a code and waits for an admin.",
            "`nightporter users approve CODE`, or name people in access.admins.",
        )
    elif settings.access.policy == "open":
        yield Finding("access.policy", "warn", "`open` serves every proven stranger.", "")
    try:
        engines.make(settings.engine)
    except engines.EngineNotAvailable as error:
        remedy = "Correct it, or set it to operator; `up` refuses to start otherwise."
        yield Finding("engine.model", "fail", f"{error}.", remedy)
    else:
        yield from _model(settings)
    yield _egress(settings)
    yield from _budget(settings)
    yield from _heartbeat(settings)
    yield from _not_used_yet(settings)


def _model(settings: Settings) -> Iterator[Finding]:
    """What thinks. Whether a provider knows the model only asking it shows, which costs money."""
    engine = settings.engine
    if engine.model == "operator":
        said = "The built-in operator runs commands and remembers; set a model to talk freely."
        yield Finding("engine.model", "ok", said, "")
    elif engine.api_key or engine.base_url:
        yield Finding("engine.model", "ok", f"{engine.model} is asked; the provider was not tried from here.", "")
    else:
        said = f"{engine.model} has no key: its provider will refuse every request."
        yield Finding("engine.model", "warn", said, "Set engine.api_key or engine.api_key_file.")


def _budget(settings: Settings) -> Iterator[Finding]:
    """Whether a cap on what models cost can cap anything."""
    engine = settings.engine
    if engine.daily_budget_usd is None or engine.model == "operator":
        return
    unknown = [name.full for name in names.of_settings(engine) if not prices.is_known(name)]
    if unknown:
        said = f"What {' and '.join(unknown)} costs is not known here, so engine.daily_budget_usd does not count it."
        yield Finding("engine.daily_budget_usd", "warn", said, "Cap it at the provider.")
    else:
        said = f"Over ${engine.daily_budget_usd:g} a day an admin is asked."
        yield Finding("engine.daily_budget_usd", "ok", said, "")


def _heartbeat(settings: Settings) -> Iterator[Finding]:
    """What happens unasked."""
    beat = settings.heartbeat
    if beat.every and settings.engine.model == "operator":
        said = "It is set, and does nothing with the built-in operator: there is nobody to look after HEARTBEAT.md."
        yield Finding("heartbeat.every", "warn", said, "Set a model, or take it out.")
    elif beat.every:
        quiet = f", not at {beat.quiet_hours}" if beat.quiet_hours else ""
        said = f"Every {beat.every}{quiet} a turn is spent on each workspace that has a HEARTBEAT.md."
        yield Finding("heartbeat.every", "ok", said, "")


def _egress(settings: Settings) -> Finding:
    """What sandboxes may reach; every credential's secret stays unsaid."""
    egress = settings.egress
    hosts = [*egress.allow, *(f"{entry.host} (with a credential)" for entry in egress.credentials)]
    said = f"Sandboxes may reach {', '.join(hosts)}; " if hosts else "Sandboxes reach nothing outside by themselves; "
    private = f" {', '.join(egress.allow_private)} may be private." if egress.allow_private else ""
    return Finding("egress", "ok", f"{said}any other host is asked for in chat.{private}", "")


NOT_USED_YET = {
    "identity": ("trusted_slack_teams",),
}


def _not_used_yet(settings: Settings) -> Iterator[Finding]:
    """Settings that are read and checked, and that nothing of this release acts on."""
    for section, keys in NOT_USED_YET.items():
        given = getattr(settings, section)
        for key in keys:
            if getattr(given, key) != type(given).model_fields[key].get_default(call_default_factory=True):
                yield Finding(f"{section}.{key}", "warn", "It is set, and nothing in this release uses it yet.", "")
