"""Downloads one file whole: after a cut it goes on where it was, if the file is still the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.errors import GatherError, NotThere
from binary_checks.model.protocols import Progress
from binary_checks.web.addresses import show
from binary_checks.web.answers import AS_IT_IS, Reply, Validator, is_html
from binary_checks.web.transport import Transient
from binary_checks.web.web_file import demand_file

if TYPE_CHECKING:
    from binary_checks.web.client import Client

_STEP = 1 << 20  # bytes that must have come for a further try to be worth it


def copy(source: Path, path: Path, progress: Progress | None) -> None:
    """Copy a file of this host. Raises NotThere or GatherError."""
    try:
        if not source.is_file():
            raise NotThere(f"{source}: no such file")
        shutil.copyfile(source, path)
        if progress is not None:
            size = path.stat().st_size
            progress(size, size)
    except OSError as error:
        raise GatherError(f"{source}: cannot be copied: {error.strerror}") from None


class Download:
    """One download into one file, beside which lies the state of the file that it is of."""

    def __init__(  # noqa: PLR0913 - what the client was asked
        self,
        client: Client,
        url: str,
        path: Path,
        *,
        size: int | None,
        progress: Progress | None,
        limit: int,
    ) -> None:
        self._client, self._url, self._path = client, url, path
        self._size, self._progress, self._limit = size, progress, limit
        self.hashed = False  # whether somebody will know whether it is the right file
        self._note = path.with_name(f"{path.name}.state")

    def finish(self) -> None:
        """Ask until all of it is there; each try that brings something counts as the first one."""
        before = -1
        while True:
            try:
                self._client.insist(self._url, self._try_once)
                return
            except GatherError:
                there = self._there()
                if there < before + _STEP or not (self._state().for_ranges or self.hashed):
                    raise
                before = there
            except OSError as error:
                raise GatherError(f"{self._path.parent}: {error.strerror}") from None

    def _try_once(self) -> None:
        there, state = self._there(), self._state()
        headers = dict(AS_IT_IS)
        if there and (state.for_ranges or self.hashed):
            headers["Range"] = f"bytes={there}-"
        if there and state.for_ranges:
            headers["If-Range"] = state.for_ranges
        reply = self._client.open(self._url, headers)
        try:
            self._take(reply, there, state)
        except BaseException:
            reply.drop()
            raise
        reply.done()

    def _take(self, reply: Reply, there: int, state: Validator) -> None:
        part = reply.part
        if reply.status == 206 and part and part[0] == there and not state.differs(reply.validator):
            self._write(reply, there, part[2])
        elif reply.status == 200:
            self._write(reply, 0, reply.length)
        else:  # what is there is of another file, or longer than this one
            self._path.unlink(missing_ok=True)
            raise Transient("the file changed while it was read")

    def _write(self, reply: Reply, offset: int, size: int | None) -> None:
        expected = self._size if self._size is not None else size
        if size is not None and expected != size:
            said = f"{size:,} bytes, but {expected:,} by the index"
            raise GatherError(f"{show(self._url)}: {said}")
        self._note_state(reply.validator)
        done = offset
        with self._path.open("r+b" if offset else "wb") as file:
            file.seek(offset)
            for piece in reply.pieces(self._limit - offset):
                if not done:
                    demand_file(reply, piece)
                    if is_html(piece):
                        raise GatherError(f"{show(self._url)}: a web page (HTML), not the file")
                done += len(piece)
                file.write(piece)
                if self._progress is not None:
                    self._progress(done, expected or 0)
        if size is not None and done != size:
            raise Transient("the connection was cut")
        self._note.unlink(missing_ok=True)

    def _there(self) -> int:
        return self._path.stat().st_size if self._path.is_file() else 0

    def _state(self) -> Validator:
        try:
            found = json.loads(self._note.read_text(encoding="utf-8"))
            return Validator(etag=str(found["etag"]), last_modified=str(found["last_modified"]))
        except (OSError, ValueError, KeyError, TypeError):
            return Validator()

    def _note_state(self, state: Validator) -> None:
        row = {"etag": state.etag, "last_modified": state.last_modified}
        self._note.write_text(json.dumps(row), encoding="utf-8")
