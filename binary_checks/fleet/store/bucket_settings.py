"""Settings of a bucket, read from its URL and the provider's usual variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store.store_names import require_name

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_YES = {"1", "true", "yes", "on"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """An object store that supports conditional creation, and how obstore connects to it."""

    name: str  # in messages
    client: str  # a class of obstore.store
    variables: tuple[str, ...]  # passed to obstore, with lower-case names
    credentials: str  # variables that messages ask for
    allow_http: str  # variable that allows an endpoint without TLS
    # variables that name another server; the first one that is set counts
    endpoints: tuple[str, ...] = ()
    endpoint_key: str = ""  # obstore's name for the endpoint
    always: Mapping[str, str] = field(default_factory=dict)


PROVIDERS: Mapping[str, Provider] = {
    "s3": Provider(
        name="Amazon S3",
        client="S3Store",
        variables=(
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_ROLE_ARN",
            "AWS_ROLE_SESSION_NAME",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
            "AWS_SKIP_SIGNATURE",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
            "AWS_SERVER_SIDE_ENCRYPTION",
            "AWS_SSE_KMS_KEY_ID",
            "AWS_DEFAULT_REGION",
            "AWS_REGION",
        ),
        credentials="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        allow_http="AWS_ALLOW_HTTP",
        endpoints=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        endpoint_key="aws_endpoint_url_s3",
        always={"aws_conditional_put": "etag"},
    ),
    "gs": Provider(
        name="Google Cloud Storage",
        client="GCSStore",
        variables=(
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            "GOOGLE_SKIP_SIGNATURE",
        ),
        credentials="GOOGLE_APPLICATION_CREDENTIALS",
        allow_http="GOOGLE_ALLOW_HTTP",
    ),
    "az": Provider(
        name="Azure Blob Storage",
        client="AzureStore",
        variables=(
            "AZURE_STORAGE_ACCOUNT_NAME",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_CLIENT_ID",
            "AZURE_CLIENT_SECRET",
            "AZURE_TENANT_ID",
            "AZURE_FEDERATED_TOKEN_FILE",
            "AZURE_SKIP_SIGNATURE",
        ),
        credentials="AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        allow_http="AZURE_ALLOW_HTTP",
        endpoints=("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
        endpoint_key="azure_storage_endpoint",
    ),
}
"""Scheme of a URL -> provider."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketSettings:
    """The settings of a client."""

    scheme: str
    bucket: str  # called a container on Azure
    prefix: str  # "" for the whole bucket
    host: str  # of the endpoint, for messages; "" for the provider's own
    config: Mapping[str, Any]  # for obstore
    allow_http: bool = False

    def __repr__(self) -> str:
        return f"<the bucket {self.bucket}>"

    @property
    def url(self) -> str:
        """The store's URL for messages."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def provider(self) -> Provider:
        """The provider of the URL's scheme; other servers may speak the same protocol."""
        return PROVIDERS[self.scheme]


def read_settings(url: str, environ: Mapping[str, str]) -> BucketSettings:
    """Return the settings. Raises ProfileError, which contains no secrets."""
    scheme = url.partition(":")[0].lower()
    provider = PROVIDERS[scheme]
    bucket, prefix = _split(url, scheme)
    given = (name for name in provider.endpoints if environ.get(name))
    variable = next(given, "")
    endpoint = environ.get(variable, "")
    allow_http = environ.get(provider.allow_http, "").lower() in _YES
    config: dict[str, str] = {**provider.always}
    config |= {name.lower(): environ[name] for name in provider.variables if environ.get(name)}
    if endpoint:
        config[provider.endpoint_key] = endpoint.rstrip("/")
    return BucketSettings(
        scheme=scheme,
        bucket=bucket,
        prefix=prefix,
        host=_read_host(variable, endpoint, provider, allow_http) if endpoint else "",
        config=config,
        allow_http=allow_http,
    )


def _split(url: str, scheme: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ProfileError(
                f"--store: an {scheme}:// URL with credentials, a query or a fragment: give "
                f"credentials in {PROVIDERS[scheme].credentials}"
            )
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc) or (prefix and not require_name(prefix)):
            raise ProfileError(
                f"--store: not a valid bucket and prefix, as in {scheme}://bucket/prefix"
            )
    except (ValueError, StoreError):
        raise ProfileError(
            f"--store: not a bucket and a prefix, as in {scheme}://bucket/prefix"
        ) from None
    return parts.netloc, prefix


def _read_host(variable: str, endpoint: str, provider: Provider, allow_http: bool) -> str:
    try:
        parts = urlsplit(endpoint)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ProfileError(f"{variable}: not an http:// or https:// URL without credentials")
    if parts.scheme == "http" and not allow_http:
        raise ProfileError(f"{variable}: http:// is not encrypted: set {provider.allow_http}=true")
    return f"{parts.hostname}{port}"
