"""What the doctor says of where volumes are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nightporter import services
from nightporter.doctor import stores
from nightporter.errors import ConfigurationError
from nightporter.settings import load
from tests.buckets import SETTINGS, FaultyWay, ObjectStore
from workspace_store.bucket import Bucket


def found(home: Path, **settings: str) -> tuple[str, str, str]:
    given = {f"NIGHTPORTER_{key.upper()}": value for key, value in {**SETTINGS, **settings}.items()}
    finding = stores.storage(load({"NIGHTPORTER_HOME": str(home), **given}))
    return finding.state, finding.sentence, finding.remedy


def test_a_folder(tmp_path: Path) -> None:
    state, said, _ = found(tmp_path)
    assert (state, str(tmp_path / "volumes") in said) == ("ok", True)


def test_an_object_store_that_does_what_is_needed(tmp_path: Path, object_store: ObjectStore) -> None:
    name = object_store.create()
    state, said, _ = found(tmp_path, volumes_url=f"s3://{name}/house", storage__endpoint=object_store.endpoint)
    assert state == "ok"
    assert f"s3://{name}/house" in said
    assert "conditional writes" in said
    assert list(object_store.open(name).names("probe")) == [], "nothing is left of the try"


def test_one_that_writes_over_what_it_must_not(tmp_path: Path, object_store: ObjectStore) -> None:
    way = FaultyWay(object_store, fault=lambda asked: "blind")
    try:
        url = f"s3://{object_store.create()}"
        state, said, remedy = found(tmp_path, volumes_url=url, storage__endpoint=way.endpoint)
    finally:
        way.close()
    assert state == "fail"
    assert "wrote over" in said
    assert "If-Match" in remedy


def test_a_bucket_that_is_not_there(tmp_path: Path, object_store: ObjectStore) -> None:
    state, said, _ = found(tmp_path, volumes_url="s3://nobody-made-it", storage__endpoint=object_store.endpoint)
    assert state == "fail"
    assert "there is no bucket nobody-made-it" in said


def test_keys_come_from_files_and_are_shown_nowhere(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    settings = load(
        {
            "NIGHTPORTER_HOME": str(tmp_path / "home"),
            "NIGHTPORTER_VOLUMES_URL": "s3://bucket/a/b",
            "NIGHTPORTER_STORAGE__SECRET_KEY_FILE": str(tmp_path / "key"),
        }
    )
    assert settings.kept_in.bucket_settings().secret_key == "from-a-file"
    shown = f"{settings!r} {settings.kept_in!r} {settings.kept_in.bucket_settings()!r}"
    assert "from-a-file" not in shown


def test_nothing_of_an_object_store_is_imported_without_one(tmp_path: Path) -> None:
    code = (
        "import json, sys; from nightporter import services, settings; "
        "kept = settings.load().kept_in; kept.volumes(); kept.blobs(); "
        "print(json.dumps([m for m in sys.modules if m.startswith(('obstore', 'workspace_store.bucket'))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], "NIGHTPORTER_HOME": str(tmp_path)},
    )  # fmt: skip
    assert json.loads(done.stdout) == []


def test_a_start_without_the_package_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    settings = load({"NIGHTPORTER_HOME": str(tmp_path), "NIGHTPORTER_VOLUMES_URL": "s3://bucket"})
    with pytest.raises(ConfigurationError, match=r"pip install 'nightporter\[s3\]'"):
        services.prepare(settings)


@pytest.mark.parametrize("prefix", ["", "house", "a/b"])
def test_prefixes_keep_houses_apart(object_store: ObjectStore, prefix: str) -> None:
    settings = object_store.open(object_store.create()).settings
    one, other = Bucket(replace(settings, prefix=prefix)), Bucket(replace(settings, prefix="other"))
    one.put("volumes/a", b"1")
    assert list(one.names("volumes")) == ["volumes/a"]
    assert list(other.names("volumes")) == []
