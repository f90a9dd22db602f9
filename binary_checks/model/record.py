"""What of RECORD a wheel and its installed copy have in common."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator

from binary_checks.model.packages import RecordRow

WRITTEN_BY_INSTALLERS = frozenset(
    [
        "INSTALLER",
        "REQUESTED",
        "RECORD",
        "RECORD.jws",
        "RECORD.p7s",
        "direct_url.json",
        "uv_cache.json",
        "uv_build.json",
    ]
)
"""Files of the metadata folder that a wheel's RECORD does not name."""


def hash_record(dist_info: str, rows: Iterable[RecordRow]) -> str:
    """The SHA-256 of those rows that installation leaves as they are, sorted.

    A row is ``path,hash,size`` with the path in site-packages. Left out are RECORD's own row and
    what installers add, and what lands outside site-packages, where scripts are written anew.
    """
    landed = sorted(
        f"{path},{row.hash},{'' if row.size is None else row.size}"
        for path, row in _place(dist_info, rows)
        if not is_installers(dist_info, path, row.hash)
    )
    return hashlib.sha256("\n".join(landed).encode("utf-8", "surrogatepass")).hexdigest()


def decode_hash(signature: str) -> str:
    """RECORD's spelling of a SHA-256 in hexadecimal; "" for another algorithm or nonsense."""
    algorithm, _, encoded = signature.partition("=")
    try:
        return urlsafe_b64decode(encoded + "==").hex() if algorithm == "sha256" else ""
    except (Base64Error, ValueError):
        return ""


def is_installers(dist_info: str, path: str, signature: str) -> bool:
    """Whether an installer wrote that file: of its own account, or compiled, without a hash."""
    folder, _, name = path.rpartition("/")
    own = folder == dist_info and name in WRITTEN_BY_INSTALLERS
    return own or (not signature and folder.rpartition("/")[2] == "__pycache__")


def _place(dist_info: str, rows: Iterable[RecordRow]) -> Iterator[tuple[str, RecordRow]]:
    """The rows that land in site-packages, with the place; an installed RECORD has it already."""
    scheme_folder = f"{dist_info.removesuffix('.dist-info')}.data"
    for row in rows:
        path = row.path
        first, _, rest = path.partition("/")
        if first == scheme_folder:
            scheme, _, path = rest.partition("/")
            if scheme not in {"purelib", "platlib"}:
                continue
        if not path.startswith(("../", "/")) and ":" not in path.partition("/")[0]:
            yield path, row
