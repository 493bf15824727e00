"""JSON that is nested deeper than anything can read is damage like any other, whoever stored or said it."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from workspace_store import manifests, markers
from workspace_store.heads import Head
from workspace_store.manifests import ManifestCorrupt
from workspace_store.markers import VolumeDamaged

ENDLESS = b"[" * 200_000


def test_a_stored_head() -> None:
    with pytest.raises(VolumeDamaged, match="cannot be read"):
        Head.decoded(ENDLESS, uuid4())


@pytest.mark.parametrize("data", [ENDLESS, b"null", b"[]", b"7"])
def test_a_manifest(data: bytes) -> None:
    with pytest.raises(ManifestCorrupt, match="generation 3"):
        manifests.read(data, 3)


def test_a_marker(tmp_path: Path) -> None:
    (tmp_path / "marker.json").write_bytes(ENDLESS)
    with pytest.raises(VolumeDamaged, match="restore it from a backup"):
        markers.read(tmp_path)
