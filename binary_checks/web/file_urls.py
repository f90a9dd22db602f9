"""Serves ``file:`` URLs as servers do the others."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import urlsplit

from binary_checks.errors import GatherError, MalformedError, NotThere
from binary_checks.web.addresses import show
from binary_checks.web.answers import Validator, WebAnswer


def path_of(url: str) -> Path:
    """Where the file lies. Raises GatherError for one on another host."""
    from urllib.request import url2pathname  # with all that speaks HTTP

    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise GatherError(f"{show(url)}: a file: URL of another host")
    try:
        return Path(url2pathname(parts.path))
    except (OSError, ValueError):
        raise NotThere(f"{show(url)}: not a path") from None


def read_file_url(url: str, most: int) -> WebAnswer:
    """The whole file; of a folder the page in it. Raises NotThere or GatherError."""
    path = path_of(url)
    try:
        if path.is_dir():
            path, url = path / "index.html", f"{url.rstrip('/')}/index.html"
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere(f"{show(url)}: no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise GatherError(f"{show(url)}: cannot be read: {reason}") from None
    if len(content) > most:
        raise GatherError(f"{show(url)}: more than {most:,} bytes")
    html = path.suffix.lower() in (".html", ".htm")
    return WebAnswer(url=url, content=content, content_type="text/html" if html else "")


class DiskFile:
    """A file behind a ``file:`` URL, read in parts."""

    ranges = True
    transferred = requests = 0

    def __init__(self, url: str) -> None:
        self.url = show(url)
        path = path_of(url)
        self.name = path.name
        self._lock = threading.Lock()  # parts are read from several threads
        try:
            if not path.is_file():
                raise NotThere(f"{self.url}: no such file")
            self._file = path.open("rb")
            self.size = path.stat().st_size
            self.validator = Validator(etag=f'"{path.stat().st_mtime_ns}-{self.size}"')
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            raise GatherError(f"{self.url}: cannot be read: {reason}") from None

    @property
    def etag(self) -> str:
        """By what this state of the file is known."""
        return self.validator.etag

    @property
    def last_modified(self) -> str:
        """Nothing: the other says it."""
        return ""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly those bytes. Raises MalformedError where the file ends before."""
        with self._lock:
            self._file.seek(offset)
            content = self._file.read(length)
        if len(content) != length:
            raise MalformedError("the file ends before", offset)
        return content

    def close(self) -> None:
        """Let go of it."""
        self._file.close()
