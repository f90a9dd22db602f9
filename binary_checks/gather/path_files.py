"""Files for Python's module ``site``: ``*.pth`` at the top level of site-packages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import (
    ContentRequest,
    Distribution,
    PathFile,
    PathFiles,
    TreeEntry,
    UnparsedSource,
)

_ENDING = ".pth"
_LONGEST = 1 << 16  # bytes; a path file of a package has one line
_CODE = re.compile(r"import[ \t]")  # how ``site`` recognises a line of code
_STATEMENT = re.compile(
    r"import\s+(?P<modules>[\w.]+(?:\s+as\s+\w+)?(?:\s*,\s*[\w.]+(?:\s+as\s+\w+)?)*)"
    r"|from\s+(?P<module>[\w.]+)\s+import\b.*"
)


def _is_path_file(entry: TreeEntry) -> bool:
    return entry.name.endswith(_ENDING)


PATH_FILES = ContentRequest(chooses=_is_path_file, longest=_LONGEST)


@gathers(PathFiles, wants=(PATH_FILES,))
def read_path_files(package: Distribution, contents: MemberContents) -> PathFiles:
    """Read the path files as ``site`` does, but execute no line. Raises PackageError."""
    files, unread = [], []
    for member in package.members:
        inside = package.layout.inside(member.path)
        if inside is None or "/" in inside or not inside.endswith(_ENDING):
            continue
        reason = f"it has {member.size} bytes; more than {_LONGEST} are not read"
        if member.size <= _LONGEST:
            try:
                files.append(_read(member.path, contents.read(member)))
                continue
            except Unavailable as error:
                reason = str(error)
        unread.append(UnparsedSource(path=member.path, reason=reason))
    return PathFiles(files=tuple(files), unread=tuple(unread))


def _read(path: str, content: bytes) -> PathFile:
    folders, modules = list[str](), list[str]()
    for line in content.decode("utf-8-sig", "replace").splitlines():
        if _CODE.match(line):
            modules += _list_imports(line)
        elif line.strip() and not line.startswith("#"):
            folders.append(line.rstrip())
    return PathFile(path=path, folders=tuple(folders), modules=tuple(modules))


def _list_imports(line: str) -> Iterator[str]:
    """Yield the modules that a line of code imports before it has any string or call.

    What follows a quote or a parenthesis may be inside of a string, or depend on a condition.
    """
    plain = re.split(r"['\"()\[\]#]", line, maxsplit=1)
    statements = plain[0].split(";")
    # The last statement continues behind the quote.
    for statement in statements[: -1 if plain[1:] else None]:
        match = _STATEMENT.fullmatch(statement.strip())
        if match and match["module"]:
            yield match["module"]
        elif match:
            yield from (each.split()[0] for each in match["modules"].split(","))
