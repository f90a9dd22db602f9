"""Where a bucket is and how it is asked, from the URL and the usual AWS_* variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.store.safe_names import demand_name

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KNOWN = (
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
)
_YES = {"1", "true", "yes", "on"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketSettings:
    """What a client is made of."""

    bucket: str
    prefix: str  # "" for the whole bucket
    host: str  # of the endpoint, as messages name it; "" for AWS's own
    config: Mapping[str, Any]  # of obstore
    allow_http: bool = False

    def __repr__(self) -> str:
        return f"<the bucket {self.bucket}>"

    @property
    def url(self) -> str:
        """As messages name the store."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def read_settings(url: str, environ: Mapping[str, str]) -> BucketSettings:
    """Read them. Raises ProfileError, which repeats nothing that may be a secret."""
    bucket, prefix = _split(url)
    endpoint = next((environ[name] for name in _ENDPOINTS if environ.get(name)), "")
    allow_http = environ.get("AWS_ALLOW_HTTP", "").lower() in _YES
    config = {name.lower(): environ[name] for name in _KNOWN if environ.get(name)}
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    config |= {"aws_region": region, "aws_conditional_put": "etag"}
    if endpoint:
        config["aws_endpoint_url_s3"] = endpoint.rstrip("/")
    return BucketSettings(
        bucket=bucket,
        prefix=prefix,
        host=_read_host(endpoint, allow_http=allow_http) if endpoint else "",
        config=config,
        allow_http=allow_http,
    )


def _split(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ProfileError(
                "--store: an s3:// URL with credentials, a query or a fragment: give credentials "
                "in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc) or (prefix and not demand_name(prefix)):
            raise ProfileError("--store: not the name of a bucket, as in s3://bucket/prefix")
    except (ValueError, StoreError):
        raise ProfileError("--store: not a bucket and a prefix, as in s3://bucket/prefix") from None
    return parts.netloc, prefix


def _read_host(endpoint: str, *, allow_http: bool) -> str:
    try:
        parts = urlsplit(endpoint)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ProfileError("AWS_ENDPOINT_URL: not an http:// or https:// URL without credentials")
    if parts.scheme == "http" and not allow_http:
        raise ProfileError(
            "AWS_ENDPOINT_URL: http:// sends all in the clear: set AWS_ALLOW_HTTP=true"
        )
    return f"{parts.hostname}{port}"
