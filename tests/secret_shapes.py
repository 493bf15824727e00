"""Made-up secrets of every shape that is told by its looks, as strategies. None of them opens anything."""

from __future__ import annotations

import base64
import json
import string

from hypothesis import strategies as st

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits


def some(alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    # No run of one character: that is what a placeholder looks like, and what base64 of nothing is.
    most = least if most is None else most
    return st.text(alphabet, min_size=least, max_size=most).filter(lambda text: len(set(text)) > min(5, least // 3))


def begins(prefix: str, alphabet: str, least: int, most: int | None = None) -> st.SearchStrategy[str]:
    return some(alphabet, least, most).map(prefix.__add__)


def as_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


HS256 = as_base64(b'{"alg":"HS256","typ":"JWT"}')


def pem(kind: str, beginning: str, *closing: str) -> st.SearchStrategy[str]:
    def written(body: str) -> str:
        body = beginning + body
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        return "\n".join([f"-----BEGIN {kind}-----", *lines, *closing, f"-----END {kind}-----"])

    return some(ALNUM + "+/", 120, 400).map(written)


ON_ONE_LINE: dict[str, st.SearchStrategy[str]] = {
    "AWS key id": begins("AKIA", UPPER, 16),
    "AWS temporary id": begins("ASIA", UPPER, 16),
    "AWS session": begins("IQoJb3JpZ2luX2Vj", ALNUM + "+/", 100, 300),
    "GitHub": st.sampled_from(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]).flatmap(lambda p: begins(p, ALNUM, 36)),
    "GitHub, fine-grained": begins("github_pat_", ALNUM + "_", 82),
    "GitLab": st.sampled_from(["glpat-", "gldt-", "glrt-", "glptt-"]).flatmap(lambda p: begins(p, URLSAFE, 20)),
    "OpenAI": begins("sk-proj-", URLSAFE, 60, 160),
    "OpenAI, of old": begins("sk-", ALNUM, 48),
    "Anthropic": begins("sk-ant-api03-", URLSAFE, 93),
    "Hugging Face": begins("hf_", ALNUM, 34),
    "Groq": begins("gsk_", ALNUM, 52),
    "Slack": st.sampled_from(["xoxb-", "xoxp-", "xoxe.xoxp-", "xapp-1-"]).flatmap(lambda p: begins(p, ALNUM + "-", 40)),
    "Slack hook": some(ALNUM, 24).map(lambda s: f"https://hooks.slack.com/services/T01234567/B01234567/{s}"),
    "Discord hook": some(URLSAFE, 68).map(lambda s: f"https://discord.com/api/webhooks/123456789012345678/{s}"),
    "Telegram": some(URLSAFE, 35).map(lambda s: f"1234567890:{s}"),
    "Telegram, in an address": some(URLSAFE, 35).map(lambda s: f"https://api.telegram.org/bot1234567890:{s}/getMe"),
    "Stripe": st.sampled_from(["sk_live_", "rk_live_", "sk_test_"]).flatmap(lambda p: begins(p, ALNUM, 24, 90)),
    "Google key": begins("AIza", URLSAFE, 35),
    "Google access": begins("ya29.", URLSAFE, 60),
    "Google client": begins("GOCSPX-", URLSAFE, 28),
    "npm": begins("npm_", ALNUM, 36),
    "PyPI": begins("pypi-AgEIcHlwaS5vcmc", URLSAFE, 100),
    "RubyGems": begins("rubygems_", HEX, 48),
    "Docker Hub": begins("dckr_pat_", URLSAFE, 27),
    "SendGrid": st.tuples(some(URLSAFE, 22), some(URLSAFE, 43)).map(lambda t: f"SG.{t[0]}.{t[1]}"),
    "DigitalOcean": begins("dop_v1_", HEX, 64),
    "Shopify": begins("shpat_", HEX, 32),
    "Databricks": begins("dapi", HEX, 32),
    "Linear": begins("lin_api_", ALNUM, 40),
    "Grafana": begins("glsa_", ALNUM, 32).flatmap(lambda s: st.just(s + "_0a1b2c3d")),
    "Vault": begins("hvs.", URLSAFE, 90),
    "Atlassian": begins("ATATT3xFfGF0", URLSAFE, 180),
    "Postman": begins("PMAK-", HEX, 24).flatmap(lambda s: begins(s + "-", HEX, 34)),
    "Azure storage": some(ALNUM + "+/", 86).map(lambda s: f"AccountName=x;AccountKey={s}==;EndpointSuffix=y"),
    "age": begins("AGE-SECRET-KEY-1", UPPER, 58),
    "JWT": st.tuples(some(URLSAFE, 20, 200), some(URLSAFE, 43)).map(
        lambda t: ".".join([HS256, as_base64(json.dumps({"sub": t[0]}).encode()), t[1]])
    ),
    "JWE": st.lists(some(URLSAFE, 16, 90), min_size=4, max_size=4).map(
        lambda parts: ".".join([as_base64(b'{"alg":"RSA-OAEP","enc":"A256GCM"}'), *parts])
    ),
    "a key in base64": pem("RSA PRIVATE KEY", "MIIEpAIBAAKCAQEA").map(lambda s: base64.b64encode(s.encode()).decode()),
    "a key on one line": pem("RSA PRIVATE KEY", "MIIEpAIBAAKCAQEA").map(lambda s: s.replace("\n", "\\n")),
    "a password in an address": some(ALNUM + "!-_.~", 8, 30).map(lambda s: f"postgresql://porter:{s}@db.example:5432/x"),
    "a password with signs in an address": some(ALNUM, 9, 30).map(lambda s: f"amqp://p:x$${s}:7@mq.example/"),
    "a token in an address": begins("7", ALNUM, 39).map(lambda s: f"https://{s}@git.example/x.git"),
    "a header": some(URLSAFE, 12, 60).map(lambda s: f"Authorization: Bearer {s}"),
    "a header of its own": some(URLSAFE, 12, 60).map(lambda s: f"X-Api-Key: {s}"),
    "a header as JSON": some(URLSAFE, 12, 60).map(lambda s: json.dumps({"Authorization": f"Bearer {s}"})),
    "a password as JSON": some(ALNUM, 8, 30).map(lambda s: json.dumps({"user": "x", "password": s})),
    "a password as YAML": some(ALNUM, 8, 30).map(lambda s: f"db_password: {s}"),
    "an assignment": some(ALNUM + "%-_.", 8, 30).map(lambda s: f"export DB_PASSWORD={s}"),
    "an option": some(ALNUM, 8, 30).map(lambda s: f"mytool --client-secret={s} go"),
    "curl's": some(ALNUM, 8, 30).map(lambda s: f"curl -sS -u porter:{s} https://x.example"),
    "sshpass's": some(ALNUM, 8, 30).map(lambda s: f"sshpass -p {s} ssh x.example"),
    ".netrc's": some(ALNUM, 8, 30).map(lambda s: f"machine x.example login porter password {s}"),
}  # fmt: skip
ON_MANY_LINES: dict[str, st.SearchStrategy[str]] = {
    "RSA": pem("RSA PRIVATE KEY", "MIIEpAIBAAKCAQEA"),
    "PKCS 8": pem("PRIVATE KEY", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw"),
    "encrypted": pem("ENCRYPTED PRIVATE KEY", "MIIFHDBOBgkqhkiG9w0BBQ0w"),
    "EC": pem("EC PRIVATE KEY", "MHcCAQEEI"),
    "OpenSSH": pem("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ"),
    "PGP": pem("PGP PRIVATE KEY BLOCK", "lQOYBGW", "=njUN"),
    "PGP, without its checksum": pem("PGP PRIVATE KEY BLOCK", "lQOYBGW"),
}
ANY = st.one_of(*ON_ONE_LINE.values(), *ON_MANY_LINES.values())


def pieces(secret: str) -> list[str]:
    """What must be nowhere: each run of it that says something, without the words around it."""
    lines = secret.replace("\\n", "\n").split("\n")
    kept = [line for line in lines if len(line) >= 8 and not line.startswith("-----")]
    return kept if len(lines) > 1 else [secret]
