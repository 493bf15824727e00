"""Check of the sandbox: a real one is started on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nightporter.doctor.check import Finding
from nightporter.settings import Settings


def sandbox(settings: Settings) -> Finding:
    """Whether commands can be isolated here; where not, tools are refused, and nothing runs on the host."""
    import asyncio

    return asyncio.run(_try(settings))


async def _try(settings: Settings) -> Finding:
    from sandbox_runner.bubblewrap import BubblewrapBackend
    from sandbox_runner.uids import HostUids

    if settings.sandbox.backend not in ("auto", "bubblewrap"):
        named = settings.sandbox.backend
        remedy = "Set sandbox.backend to auto."
        return Finding("sandbox", "fail", f"This release has no backend called {named}; tools are refused.", remedy)
    with tempfile.TemporaryDirectory(prefix="nightporter-doctor-") as folder:
        backend = BubblewrapBackend(Path(folder), host_uids=HostUids.of(Path(folder)))
        try:
            probe = await backend.probe()
        finally:
            await backend.close()
    if not probe.works:
        return Finding("sandbox", "fail", f"{probe.reason} Tools are refused.", probe.remedy)
    cannot = f" It cannot: {'; '.join(probe.cannot)}." if probe.cannot else ""
    return Finding("sandbox", "warn" if probe.cannot else "ok", f"{probe.reason}{cannot}", probe.remedy)
