"""What secrets look like, by the name they go under or by their shape.

It errs on the side of taking something for a secret. The guest agent, which runs alone in its sandbox, has the same
rules (``sandbox_runner/guest/secret_filter.py``); a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NAME = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIALS?|CREDS|COOKIE|BEARER|APIKEY|PRIVATEKEY|ACCESSKEY"
    r"|SECRETKEY|MNEMONIC|SEED_?PHRASE)S?(?:_|\d*$)"
    r"|(?:^|_)(?:API|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|MASTER|AUTH|SSH|DEPLOY|SERVICE|SESSION)_?KEYS?(?:_|\d*$)"
    r"|(?:^|_)(?:PWD|PASS|AUTH|PAT|DSN|OTP|JWT)$"
    r"|_KEY$",
    re.IGNORECASE,
)
NOT_SECRET_NAMES = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK"))

VALUE = re.compile(
    # Clouds and hosts of code
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|(?:IQoJb3JpZ2lu|FwoGZXIvYXdz)[A-Za-z0-9+/=]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}"
    r"|(?:Account|SharedAccess)Key=[A-Za-z0-9+/=]{20,}|[?&](?:sig|X-Amz-Signature)=[A-Za-z0-9%+/=-]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|GR1348941[A-Za-z0-9_-]{16,}"
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|ffct)-[A-Za-z0-9_.-]{16,}|AT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{20,}"
    r"|do[opr]_v1_[a-f0-9]{32,}|HRKU-[A-Za-z0-9_-]{20,}|nfp_[A-Za-z0-9]{30,}|(?<![A-Za-z0-9])pul-[a-f0-9]{40}"
    r"|fm[12]_[A-Za-z0-9+/=_-]{30,}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{20,}|\.atlasv1\.[A-Za-z0-9_=-]{40,}"
    r"|dp\.(?:pt|st|ct|scim|audit)\.[A-Za-z0-9]{30,}|CCIPAT_[A-Za-z0-9_]{20,}|bkua_[a-f0-9]{30,}|dapi[a-f0-9]{32}"
    r"|(?<![A-Za-z0-9])(?:hv[sbr]\.|s\.(?=[A-Za-z0-9]{24}\b))[A-Za-z0-9_-]{20,}"
    # Models
    r"|(?:(?<![A-Za-z0-9])|(?<=\\n))sk-[A-Za-z0-9_-]{16,}"
    r"|hf_[A-Za-z0-9]{20,}|gsk_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}"
    r"|(?<![A-Za-z0-9])r8_[A-Za-z0-9]{30,}"
    # Money, mail, chat, watching
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,}"
    r"|shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{32,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|xkeysib-[a-f0-9]{32,}"
    r"|(?<![A-Za-z0-9])(?:key-|SK)[a-f0-9]{32}|[a-f0-9]{32}-us\d{1,2}\b|EAACEdEose0cBA[A-Za-z0-9]+"
    r"|xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}"
    r"|(?<!\d)\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"
    r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{16,}"
    r"|discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{16,}"
    r"|(?<![A-Za-z0-9_-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"
    r"|glsa_[A-Za-z0-9]{20,}|sntry[su]_[A-Za-z0-9_=+/-]{20,}|NRAK-[A-Z0-9]{20,}"
    # Work, packages, data
    r"|(?:ntn|secret)_[A-Za-z0-9]{40,}|lin_api_[A-Za-z0-9]{20,}|figd_[A-Za-z0-9_-]{30,}|PMAK-[a-f0-9]{20,}"
    r"|(?<![A-Za-z0-9])pat[A-Za-z0-9]{14}\.[a-f0-9]{40,}|ops_eyJ[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|rubygems_[a-f0-9]{32,}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}"
    r"|sb[ps]_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}"
    # JWT and JWE (RFC 7519, 7516)
    r"|(?:(?<![A-Za-z0-9])|(?<=\\n))eyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*"
    r"(?:\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)?"
    # Private keys, also without their first line or in base64 once more
    r"|-----(?:BEGIN|END) [A-Z0-9 ]*PRIVATE KEY|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY|PuTTY-User-Key-File-\d:"
    r"|b3BlbnNzaC1rZXktdjE|LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}|xprv[A-Za-z0-9]{80,}"
    r"|(?<![A-Za-z0-9+/])MI(?:[IG][A-Za-z0-9+/]{2}|[CJ])[A-Za-z0-9+/]{1,3}IBAD?A[A-Za-z0-9+/]{16,}"
    r"|(?<![A-Za-z0-9+/])M(?:HcCAQEEI|IGkAgEBBD|I[GH][A-Za-z0-9+/]AgEAM[BC]|C4CAQAwBQYDK2Vw)"
    r"|(?<![A-Za-z0-9+/])MII[A-Za-z0-9+/]{3}B[A-Z]BgkqhkiG9w0BBQ"
    # In addresses and headers
    r"|://[^/\s:@]*:(?!\$[{A-Za-z_(])[^/\s@]+@|://(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,}@"
    r"|(?i:authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token|digest|apikey|ssws)\s+[A-Za-z0-9._~+/=-])"
)
ASSIGNED = re.compile(
    r"\b([A-Za-z_][A-Za-z0-9_]*)(?:\[[^][\s]{0,80}\]|\])?(?:\+?=|\s=\s*(?=[\"']))"
    r"(?:\"(?!\$)[^\"]|\$?'[^']|\$\{[A-Za-z_]\w*:?[-=+](?![}$])|[^\s\"'$;&|)])"
)
OPTION = re.compile(
    r"--?(?:[a-z0-9]{1,20}-){0,3}(?:password|passwd|passphrase|token|secret|(?:api|access|secret)[-_]?key)(?:=|\s+)"
    r"[\"']?(?![\s$\"'-])\S",
    re.IGNORECASE,
)

# Shorter than this no secret is that has a shape; all but the few that these words tell stand within one word.
_LONG_WORD = re.compile(r"\S{9,}")
_BEYOND_A_WORD = ("://", "private key", "authorization", "\u0131", "i\u0307")
"""The last two stand for an i where case does not matter."""


def values(text: str) -> Iterator[re.Match[str]]:
    """Where ``VALUE`` matches, sought only where it can: a sixth of the time in what people write."""
    lowered = text.lower()
    if any(word in lowered for word in _BEYOND_A_WORD):
        yield from VALUE.finditer(text)
    else:
        for word in _LONG_WORD.finditer(text):
            yield from VALUE.finditer(text, *word.span())


def is_secret_name(name: str) -> bool:
    return name not in NOT_SECRET_NAMES and NAME.search(name) is not None
