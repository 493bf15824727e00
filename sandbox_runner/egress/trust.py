"""What a sandbox trusts: the system's certificates, those of ``egress.ca_file``, and our own authority's.

One file, bound read-only into every sandbox, made before any service starts; none where the system's would do.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from sandbox_runner.egress import authority

FOLDER = "egress"
BUNDLE = "ca-bundle.pem"

_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def bundle_path(home: Path) -> Path:
    return home / FOLDER / BUNDLE


def prepare(home: Path, *, terminates: bool, extra: Path | None) -> None:
    """Make authority and bundle where they are needed; take the bundle away where they are not. Raises OSError."""
    bundle = bundle_path(home)
    if not terminates and extra is None:
        bundle.unlink(missing_ok=True)
        return
    parts = [_system()]
    if extra is not None:
        parts.append(extra.read_bytes())
    if terminates:
        parts.append(authority.ensure(home / FOLDER).read_bytes())
    content = b"\n".join(parts)
    bundle.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not bundle.exists() or bundle.read_bytes() != content:
        # Written in place of the old one: sandboxes that are awake keep theirs.
        partial = bundle.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(content)
        partial.chmod(0o644)
        partial.replace(bundle)


def _system() -> bytes:
    named = ssl.get_default_verify_paths().cafile
    for candidate in (named, *_SYSTEM):
        if candidate and Path(candidate).is_file():
            return Path(candidate).read_bytes()
    import certifi

    return Path(certifi.where()).read_bytes()


def upstream(extra: Path | None) -> ssl.SSLContext:
    """How a server is checked by the proxy itself."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not context.get_ca_certs() and not any(Path(path).is_file() for path in _SYSTEM):
        import certifi

        context.load_verify_locations(certifi.where())
    if extra is not None:
        context.load_verify_locations(extra)
    return context
