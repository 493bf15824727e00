"""Where volumes and blobs are kept, as the settings say it: every service and command opens them here.

In folders (a local disk, or a mount that all hosts share), or in an object store with a cache of it in the home. What
an object store needs is imported only where there is one, and nothing before it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from workspace_store.settings import StorageSettings

if TYPE_CHECKING:
    from workspace_store.blobs import Blobs
    from workspace_store.bucket import Bucket, BucketSettings
    from workspace_store.volumes import Volumes


@dataclass(frozen=True)
class Storage:
    """``url``: ``file:///FOLDER`` or ``s3://BUCKET/PREFIX``."""

    home: Path
    url: str
    settings: StorageSettings = field(default_factory=StorageSettings)

    @property
    def is_bucket(self) -> bool:
        return urlsplit(self.url).scheme == "s3"

    @property
    def folder(self) -> Path:
        """Of the volumes; their cache where they are in a bucket."""
        return self._cache / "volumes" if self.is_bucket else Path(unquote(urlsplit(self.url).path))

    @property
    def blobs_folder(self) -> Path:
        """Beside the volumes where those are not in the home: whoever shares them has the blobs too."""
        if self.is_bucket:
            return self._cache / "blobs"
        return self._blobs_at_home if self.folder == self.home / "volumes" else self.folder / "blobs"

    @property
    def _blobs_at_home(self) -> Path:
        return self.home / "blobs"

    @property
    def _cache(self) -> Path:
        """One for each place that was ever named: what is of one is nothing to the other."""
        return self.home / "cache" / sha256(f"{self.settings.endpoint} {self.url}".encode()).hexdigest()[:12]

    @cached_property
    def bucket(self) -> Bucket:
        from workspace_store.bucket import Bucket

        return Bucket(self.bucket_settings())

    def bucket_settings(self) -> BucketSettings:
        from workspace_store.bucket import BucketSettings

        parts, given = urlsplit(self.url), self.settings
        return BucketSettings(
            parts.netloc, unquote(parts.path).strip("/"), given.endpoint, given.region, given.access_key,
            given.secret_key, given.session_token, given.allow_http, given.virtual_hosted, given.timeout_seconds,
        )  # fmt: skip

    def volumes(self) -> Volumes:
        """Nothing is asked of a bucket yet."""
        if not self.is_bucket:
            from workspace_store.volumes import Volumes

            return Volumes(self.folder)
        from workspace_store.stored_volumes import StoredVolumes

        return StoredVolumes(self.folder, self.bucket)

    def blobs(self) -> Blobs:
        from workspace_store.blobs import DirectoryBlobs, MovedBlobs

        if not self.is_bucket:
            if self.blobs_folder != self._blobs_at_home and self._blobs_at_home.is_dir():
                return MovedBlobs(self.blobs_folder, DirectoryBlobs(self._blobs_at_home))
            return DirectoryBlobs(self.blobs_folder)
        from workspace_store.stored_blobs import StoredBlobs

        return StoredBlobs(DirectoryBlobs(self.blobs_folder), self.bucket)
