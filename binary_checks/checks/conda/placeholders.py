"""Whether an installer can replace the prefix of the build in every file that has it."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, Level, NotInspected, Problem
from binary_checks.model.objects import Format
from binary_checks.model.packages import BuildPath, CondaPackage, CondaPath
from binary_checks.model.protocols import ReadObject

_USUAL = 255  # characters, to which conda-build and rattler-build pad
_SHORTEST = 80  # to which conda-build 1 padded
_SHOWN = 48  # characters of a path
_BYTECODE = (".pyc", ".pyo")


@check
def short_placeholder(package: CondaPackage) -> Iterator[Finding]:
    """A placeholder in a binary file is too short for the prefixes of users.

    conda-build and rattler-build pad it to 255 characters. In text files its length does not count,
    as they may grow.

    Why: a binary file cannot grow: where the user's prefix is longer than the placeholder, the
    installer stops ("placeholder of length '80' too short").
    Fix: build with ``prefix_length: 255`` (conda-build's default), in a folder whose path is short.
    Level: below 80 characters, usual prefixes do not fit and users cannot install the package; from
    80 on a warning, as most fit.
    """
    for row in _demand_rows(package):
        length = len(row.placeholder.encode())
        if row.mode == "binary" and length < _USUAL:
            sentence = (
                f"its placeholder has {length} bytes: the package does not install into a prefix "
                "that is longer"
            )
            level = Level.ERROR if length < _SHORTEST else Level.WARNING
            yield Problem(path=row.path, sentence=sentence, level=level)


@check
def placeholder_without_room(package: CondaPackage) -> Iterator[Finding]:
    """A placeholder in a binary file is not the beginning of a text that ends with NUL.

    Installers put the prefix in its place and fill up with NUL behind the text. Data with lengths
    before their texts (pickles, archives, databases) have no such end.

    Why: conda leaves such a place as it is, and the path leads nowhere; others shift what follows,
    and the file is damaged.
    Fix: leave the path out of the data, or make it relative; list the file in
    ``ignore_prefix_files`` if nothing opens the path.
    Level: users get a damaged file, or one that names a folder of the build machine.
    """
    found = {(each.path, each.prefix): each for each in package.build_paths}
    for row in _demand_rows(package):
        there = found.get((row.path, row.placeholder))
        if row.mode == "binary" and there is not None and there.cramped:
            places = f"{there.cramped} of {there.count} places of {_shorten(there.text)} do"
            if there.count == 1:
                places = f"the only place of {_shorten(there.text)} does"
            sentence = f"{places} not end in NUL: no prefix can be put there"
            yield Problem(path=row.path, sentence=sentence)


@check
def text_placeholder_in_binary(package: CondaPackage) -> Iterator[Finding]:
    """``paths.json`` calls a binary file text, in which the prefix is to be replaced.

    Why: a text grows or shrinks with the prefix, and every offset in the file is then wrong: an
    object does not load.
    Fix: let the build tool find the mode (conda-build: ``binary_has_prefix_files``).
    Level: users cannot load the object. Of other binary data it is a warning.
    """
    found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
    objects = {item.path for item in found if item.format != Format.ARCHIVE}
    binary = {each.path for each in package.build_paths if each.binary}
    for row in _demand_rows(package):
        if row.mode == "text" and row.path in objects | binary:
            sentence = "paths.json says that it is text: replacing the prefix damages it"
            level = Level.ERROR if row.path in objects else Level.WARNING
            yield Problem(path=row.path, sentence=sentence, level=level)


@check(level=Level.WARNING)
def absent_placeholder(package: CondaPackage) -> Iterator[Finding]:
    """``paths.json`` lists a placeholder that the file does not have.

    Why: the file was changed after the build had looked for prefixes, so others may be unlisted; or
    its paths lead to another prefix, which nothing replaces.
    Fix: rebuild the package instead of changing files in it.
    Level: nothing is replaced, which by itself harms nobody.
    """
    found = {(each.path, each.prefix) for each in package.build_paths}
    broken = {member.archive_name for member in package.members if member.faults or member.target}
    for row in _demand_rows(package):
        if row.path.endswith(_BYTECODE):
            yield NotInspected(path=row.path, sentence="bytecode is not searched for prefixes")
        elif (row.path, row.placeholder) not in found and row.path not in broken:
            sentence = (
                f"does not have the placeholder that paths.json lists: {_shorten(row.placeholder)}"
            )
            yield Problem(path=row.path, sentence=sentence)


@check
def unlisted_placeholder(package: CondaPackage) -> Iterator[Finding]:
    """A file has the prefix of the build, and ``paths.json`` does not list it.

    Bytecode does not count: nothing opens the paths in it. On Windows binary files do not count:
    build tools do not list them there.

    Why: the path stays as it is and leads nowhere on users' systems: scripts do not start, builds
    against the package do not find it, programs do not find their data.
    Fix: build with ``detect_binary_files_with_prefix: true`` (conda-build), or have the code find
    its prefix when it runs.
    Level: a script whose interpreter (``#!``) lies there does not start. Elsewhere a warning:
    whether anything opens the path is not known.
    """
    rows = {(row.path, row.placeholder) for row in package.rows}
    windows = package.subdir.startswith("win-")
    for each in package.build_paths:
        if not each.prefix or (each.path, each.prefix) in rows or (windows and each.binary):
            continue
        what = "its interpreter is" if each.shebang else f"has {_count(each)}"
        sentence = f"{what} {_shorten(each.text)}, which paths.json does not list: it stays so"
        level = Level.ERROR if each.shebang else Level.WARNING
        yield Problem(path=each.path, sentence=sentence, level=level)


@check(level=Level.WARNING)
def build_folder_named(package: CondaPackage) -> Iterator[Finding]:
    """A text file names a folder of the build machine.

    Those are ``feedstock_root``, ``conda-bld``, ``croot`` and ``_build_env``, where the build's own
    compilers lie. Objects do not count: the paths of sources stand in their assertions; nor does
    ``direct_url.json``, in which pip says where it installed the build from.

    Why: nothing is there on users' systems: a CMake file, a ``.pc`` file or a ``*-config`` script
    leads builds to a compiler or a folder that does not exist.
    Fix: remove the path in the recipe, or replace it by one below the prefix.
    Level: only what opens the path fails; much is a note of how the package was built.
    """
    for each in package.build_paths:
        if not (each.prefix or each.binary or each.path.endswith("/direct_url.json")):
            yield Problem(
                path=each.path, sentence=f"names {_shorten(each.text)}, of the build machine"
            )


def _demand_rows(package: CondaPackage) -> tuple[CondaPath, ...]:
    if not package.rows:
        raise NotApplicable("no file of it has a placeholder")
    return package.rows


def _count(each: BuildPath) -> str:
    return f"{each.count} paths as" if each.count > 1 else "the path"


def _shorten(path: str) -> str:
    """Its beginning and its end: the middle is the same letters again and again."""
    half = _SHOWN // 2
    return path if len(path) <= _SHOWN else f"{path[:half]}…{path[-half:]}"
