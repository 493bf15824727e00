"""The section of the settings that says how an object store is spoken to."""

from __future__ import annotations

from workspace_store.section import PositiveFloat, PositiveInt, Secret, Section, SettingsPath, WebUrl


class StorageSettings(Section):
    """The object store, where `volumes_url` is `s3://BUCKET/PREFIX`."""

    endpoint: WebUrl = ""
    """Where it answers, such as `https://minio.example.org:9000`; Amazon S3 when empty."""
    region: str = "us-east-1"
    """The region of the bucket."""
    access_key: Secret = ""
    """Access key id; when empty, `AWS_ACCESS_KEY_ID` or what the machine has (a role)."""
    access_key_file: SettingsPath = None
    """File that holds `access_key`."""
    secret_key: Secret = ""
    """Its secret."""
    secret_key_file: SettingsPath = None
    """File that holds `secret_key`."""
    session_token: Secret = ""
    """Of temporary keys."""
    session_token_file: SettingsPath = None
    """File that holds `session_token`."""
    allow_http: bool = False
    """Whether `http://` will do: keys sign requests and are not sent, files are sent as they are."""
    virtual_hosted: bool = False
    """Whether the bucket is part of the host name rather than of the path."""
    timeout_seconds: PositiveFloat = 10.0
    """How long the store may be silent within one request; three times that until it is said to be away."""
    cache_mb: PositiveInt = 10240
    """Volumes and blobs kept on this host's disk; what sleeps longest goes first, never what is not stored yet."""
