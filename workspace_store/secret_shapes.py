"""What secrets look like, by the name they go under or by their shape.

It errs on the side of taking something for a secret. The guest agent, which runs alone in its sandbox, has the same
rules (``sandbox_runner/guest/secret_filter.py``); a test compares them.
"""

from __future__ import annotations

import re

NAME = re.compile(
    r"(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIALS?|COOKIE|BEARER|APIKEY|PRIVATEKEY|ACCESSKEY)S?(?:_|$)"
    r"|(?:^|_)(?:API|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|MASTER|AUTH|SSH|DEPLOY|SERVICE|SESSION)_?KEYS?(?:_|$)"
    r"|(?:^|_)(?:PWD|PASS|AUTH|PAT|DSN)$"
    r"|_KEY$",
    re.IGNORECASE,
)
NOT_SECRET_NAMES = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK"))

VALUE = re.compile(
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|\b\d{8,10}:[A-Za-z0-9_-]{35}\b"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}"
    r"|pypi-[A-Za-z0-9_-]{20,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|dop_v1_[a-f0-9]{32,}|AGE-SECRET-KEY-1[A-Z0-9]{20,}"
    r"|://[^/\s:@]*:[^/\s:@$]+@"
    r"|(?i:authorization:\s*(?:bearer|basic|token)\s+[A-Za-z0-9])"
)
ASSIGNED = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)=(?:\"(?!\$)[^\"]|'[^']|[^\s\"'$;&|)])")
OPTION = re.compile(
    r"--?(?:password|passwd|token|secret|api[-_]?key|access[-_]?key)(?:=|\s+)(?![\s$-])\S", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    return name not in NOT_SECRET_NAMES and NAME.search(name) is not None
