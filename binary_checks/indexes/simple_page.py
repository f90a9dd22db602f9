"""Project pages of an index: HTML (PEP 503) or JSON (PEP 691), with the files that they list."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from binary_checks.errors import BinaryChecksError, GatherError
from binary_checks.web.addresses import file_name, show, split
from binary_checks.web.transport import WebAnswer

ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.01"
)
_JSON = "application/vnd.pypi.simple.v1+json"
_PAGES = ("text/html", "application/vnd.pypi.simple.v1+html", "application/xhtml+xml")
_MOST = 250_000  # files of one project; PyPI has at most about 20,000
_LONGEST_TAG = 8192  # characters of a link's tag
_ATTRIBUTE = re.compile(
    r"""\s*([^\s=>"'/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?|\s*/""", re.DOTALL
)
_TAG = re.compile(r"<(a|base|meta)(?=\s)", re.IGNORECASE)
_HASH = re.compile(r"(sha256|sha384|sha512|sha3_256|blake2b|sha1|md5)=([0-9a-fA-F]{32,128})")
_INTERACTIVE = re.compile(r"<(?:form|script|input)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedFile:
    """A file as an index page lists it; values that the page does not state are empty."""

    file_name: str
    url: str
    index: str = ""  # URL of the index, without secrets
    hashes: Mapping[str, str] = field(default_factory=dict)  # by algorithm, in hexadecimal
    requires_python: str | None = None
    yanked: str | None = None  # the reason, which may be ""; None if the file is not yanked
    metadata: bool = False  # whether METADATA is provided separately (PEP 658)
    metadata_hash: str = ""  # "sha256=<hex>"
    provenance: bool = False  # whether there are attestations (PEP 740)
    size: int | None = None
    uploaded: str = ""
    serial: str = ""  # the page's serial number
    page: str = ""  # SHA-256 of the page's content


def read_page(answer: WebAnswer, index: str) -> list[ListedFile]:
    """Return all files that the page lists. Raises GatherError if it is not a page of an index."""
    serial = answer.headers.get("x-pypi-last-serial", "")
    if answer.content_type == _JSON:
        files = _read_json(answer, index, serial)
    elif answer.content_type in _PAGES:
        files = _read_html(answer, index, serial)
    else:
        kind = answer.content_type or "no content type"
        raise GatherError(f"{show(answer.url)}: not a page of an index ({kind})")
    page = hashlib.sha256(answer.content).hexdigest()
    found = []
    for each in files:
        if not _is_local(answer.url) and _is_local(each.url):
            continue  # a server must not name files of this host
        found.append(replace(each, page=page))
        if len(found) > _MOST:
            raise GatherError(f"{show(answer.url)}: lists more than {_MOST:,} files")
    return found


def _is_local(url: str) -> bool:
    return url[:5].lower() == "file:"


def _read_html(answer: WebAnswer, index: str, serial: str) -> Iterator[ListedFile]:
    text = _leave_out_comments(answer.content.decode("utf-8", "replace"))
    base, count = answer.url, 0
    for name, attributes in _tags(text):
        if name == "meta" and attributes.get("name", "").lower() == "pypi:repository-version":
            _require_version(attributes.get("content", ""), show(answer.url))  # PEP 629
        href = attributes.get("href")
        if href is None or name == "meta":
            continue
        if name == "base":
            # an invalid URL is ignored: links are relative to the page's own URL
            with suppress(ValueError):
                base = urljoin(base, href)
            continue
        count += 1
        if found := _read_link(base, href, attributes, index, serial):
            yield found
        if count > _MOST:
            raise GatherError(f"{show(answer.url)}: more than {_MOST:,} links")
    if _INTERACTIVE.search(text[:_LONGEST_TAG]) and not count:
        raise GatherError(f"{show(answer.url)}: a web page (HTML), but not of an index")


def _leave_out_comments(text: str) -> str:
    kept, start = [], 0
    while (begins := text.find("<!--", start)) >= 0:
        kept.append(text[start:begins])
        ends = text.find("-->", begins + 4)
        if ends < 0:
            return "".join(kept)
        start = ends + 3
    return "".join((*kept, text[start:]))


def _tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield tags with their attributes, in linear time."""
    place = 0
    while found := _TAG.search(text, place):
        attributes: dict[str, str] = {}
        place, end = found.end(), min(found.end() + _LONGEST_TAG, len(text))
        while part := _ATTRIBUTE.match(text, place, end):
            if part.end() == place:
                break
            place = part.end()
            if part[1]:
                value = next((v for v in part.groups()[1:] if v is not None), "")
                attributes.setdefault(part[1].lower(), html.unescape(value))
        yield found[1].lower(), attributes


def _read_link(
    base: str, href: str, attributes: Mapping[str, str], index: str, serial: str
) -> ListedFile | None:
    try:
        url, _, fragment = urljoin(base, href.strip()).partition("#")
        name = file_name(url)
    except ValueError:
        return None
    metadata = attributes.get("data-core-metadata", attributes.get("data-dist-info-metadata"))
    hashed = _HASH.fullmatch(metadata or "")
    yanked = attributes.get("data-yanked")
    return _make(
        file_name=name,
        url=url,
        index=index,
        hashes={each[1]: each[2].lower() for each in _HASH.finditer(fragment)},
        requires_python=attributes.get("data-requires-python") or None,
        yanked=yanked,
        metadata=metadata is not None and metadata.lower() != "false",
        metadata_hash=hashed[0].lower() if hashed else "",
        provenance=bool(attributes.get("data-provenance")),
        serial=serial,
    )


def _read_json(answer: WebAnswer, index: str, serial: str) -> Iterator[ListedFile]:
    where = show(answer.url)
    try:
        page = json.loads(answer.content)
        meta, rows = page["meta"], page["files"]
        version = str(meta["api-version"])
        serial = serial or str(meta.get("_last-serial") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise GatherError(f"{where}: not the JSON of an index") from None
    _require_version(version, where)
    if not isinstance(rows, list):
        raise GatherError(f"{where}: not the JSON of an index")
    for row in rows:
        if isinstance(row, dict) and (found := _read_row(answer.url, row, index, serial)):
            yield found


def _require_version(version: str, where: str) -> None:
    if version.strip().partition(".")[0] != "1":
        raise GatherError(
            f"{where}: version {version!r:.20} of the index API; only version 1 is supported"
        )


def _read_row(base: str, row: Mapping[str, Any], index: str, serial: str) -> ListedFile | None:
    name, href, hashes = row.get("filename"), row.get("url"), row.get("hashes")
    if not isinstance(name, str) or not isinstance(href, str):
        return None
    try:
        url, _, fragment = urljoin(base, href).partition("#")
        # pip uses the name in the URL; if the two names differ, the page is ambiguous
        if file_name(url) != name:
            return None
    except ValueError:
        return None
    stated = {f"{k}={v}" for k, v in hashes.items()} if isinstance(hashes, dict) else set()
    known = [_HASH.fullmatch(each) for each in (*sorted(stated), fragment)]
    metadata = row.get("core-metadata", row.get("dist-info-metadata"))
    digest = metadata.get("sha256") if isinstance(metadata, dict) else None
    yanked, size = row.get("yanked"), row.get("size")
    return _make(
        file_name=name,
        url=url,
        index=index,
        hashes={each[1]: each[2].lower() for each in known if each},
        requires_python=_text(row.get("requires-python")) or None,
        yanked=(yanked if isinstance(yanked, str) else "") if yanked else None,
        metadata=bool(metadata),
        metadata_hash=f"sha256={digest}".lower() if _HASH.fullmatch(f"sha256={digest}") else "",
        provenance=bool(row.get("provenance")),
        size=size if isinstance(size, int) and size >= 0 else None,
        uploaded=_text(row.get("upload-time")),
        serial=serial,
    )


def _text(value: object) -> str:
    return value[:500] if isinstance(value, str) else ""


def _make(**fields: Any) -> ListedFile | None:
    """Return the file, or None if its URL cannot be fetched."""
    try:
        parts = split(fields["url"])
    except BinaryChecksError:
        return None
    if not fields["file_name"] or parts.scheme not in ("http", "https", "file"):
        return None
    return ListedFile(**fields)


def metadata_url(url: str) -> str:
    """Return the URL of a file's METADATA (PEP 658)."""
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path}.metadata").geturl()
