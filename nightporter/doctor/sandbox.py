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
    from agent.sandbox import SandboxUnavailable
    from sandbox_runner import backend, choosing

    with tempfile.TemporaryDirectory(prefix="nightporter-doctor-") as folder:
        found = choosing.candidates(Path(folder), Path(folder), settings.sandbox)
        try:
            chosen, probe = await backend.choose(found)
        except SandboxUnavailable as error:
            return Finding("sandbox", "fail", f"{error} Tools are refused.", "Do one of what is said above.")
        finally:
            for each in found:
                await each.close()
    cannot = f" It cannot: {'; '.join(probe.cannot)}." if probe.cannot else ""
    said = f"{chosen.name}: {probe.reason}{cannot} {_disk(settings)}"
    return Finding("sandbox", "warn" if probe.cannot else "ok", said, probe.remedy)


def _disk(settings: Settings) -> str:
    return (
        f"Disk: a workspace takes at most {settings.sandbox.disk_mb:,} MB and {settings.sandbox.disk_files:,} files; a "
        "watch pauses what writes more, within a second (no quota of the filesystem is used)."
    )
