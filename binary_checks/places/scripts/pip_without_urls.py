"""Run pip in the interpreter that executes this file, without following requirements by URL.

pip has no option for that, and ``--only-binary`` does not apply to these requirements: pip fetches
and builds whatever the URL in a package's Requires-Dist names. Executed by its path: FOLDER
ARGUMENTS, where FOLDER contains pip, or is "" for the interpreter's own pip.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False  # scripts do not import typing; Python 3.8 and later run this
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

NAME = "install_req_from_req_string"  # since pip 18
REFUSED = "refused: "
"""Prefix of the line that names a requirement which was not followed."""


class PipFinder:
    """A finder that imports pip, and only pip, from a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """Implement the import system's protocol."""
        return PathFinder.find_spec(name, [self._folder]) if name == "pip" else None


def restrict_pip() -> None:
    """Replace the function that turns a Requires-Dist into a requirement to install."""
    from pip._internal.req import constructors

    read: Any = getattr(constructors, NAME, None)

    def held(text: str, comes_from: Any = None, *rest: Any, **named: Any) -> Any:
        if getattr(found := read(text, comes_from, *rest, **named), "link", None) is not None:
            leave(f"{getattr(comes_from, 'name', None) or 'a package'} requires {text}")
        return found

    setattr(constructors, NAME, held)
    from pip._internal.cli import req_command

    if read is None or getattr(req_command, NAME, None) is not held:
        leave("this pip cannot be kept from following requirements by URL")


def require_whole_answers() -> None:
    """Make urllib3 reject a body that is shorter than announced; version 1 of urllib3 accepts it.

    On an incomplete page of an index some or all releases are missing.
    """
    from pip._vendor.urllib3.response import HTTPResponse

    begin: Any = HTTPResponse.__init__

    def begin_whole(self: Any, *arguments: Any, **named: Any) -> None:
        named.setdefault("enforce_content_length", True)
        begin(self, *arguments, **named)

    setattr(HTTPResponse, "__init__", begin_whole)  # noqa: B010 - mypy knows no method's other value


def leave(reason: str) -> None:
    """Print the reason, and exit before pip continues."""
    sys.stderr.write(f"\n{REFUSED}{reason}\n")
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    _, folder, *arguments = sys.argv
    if folder:
        sys.meta_path.insert(0, PipFinder(folder))
    restrict_pip()
    require_whole_answers()
    sys.argv = ["pip", *arguments]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
