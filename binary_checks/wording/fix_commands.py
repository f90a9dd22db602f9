"""Commands that mend a problem, as templates: a report fills in the package, or a file of it."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection

from binary_checks.lines import one_line
from binary_checks.model.linkage import path_elements
from binary_checks.model.objects import ElfFile, Format, MachOFile

SIGN = "codesign --force --sign - {path}"
_LONGEST = 300  # characters of a command that a line shows
_REPAIRS = {
    Format.ELF: "auditwheel repair {package}",
    Format.MACHO: "delocate-wheel -w repaired {package}",
    Format.PE: "delvewheel repair {package}",
}
_BRACES = re.compile(r"\{(path|package)\}|([{}])\2")


def bundle(form: str) -> str:
    """What copies needed libraries into a wheel of that format of objects."""
    return next((command for each, command in _REPAIRS.items() if each == form), "")


def retag(platform: str) -> str:
    """What gives a wheel another platform tag."""
    return f"wheel tags --remove --platform-tag {_quote(platform)} {{package}}"


def drop_elements(library: ElfFile | MachOFile, dropped: Collection[str]) -> str:
    """What removes elements of a search path and keeps the others."""
    if isinstance(library, MachOFile):
        words = " ".join(f"-delete_rpath {_quote(element)}" for element in dict.fromkeys(dropped))
        return f"install_name_tool {words} {{path}}"
    kept = [element for element in path_elements(library) if element not in dropped]
    if not kept:
        return "patchelf --remove-rpath {path}"
    # Without --force-rpath patchelf makes a RUNPATH of an RPATH, which is searched later.
    force = "" if library.runpath else "--force-rpath "
    return f"patchelf {force}--set-rpath {_quote(':'.join(kept))} {{path}}"


def remove_need(name: str) -> str:
    """What lets an ELF object do without a library of which it uses nothing."""
    return f"patchelf --remove-needed {_quote(name)} {{path}}"


def lead_to(folder: str, path: str, needed: str, form: str) -> str:
    """What has an object search a folder of its package; both count from the prefix."""
    way = posixpath.relpath(folder or ".", posixpath.dirname(path) or ".")
    if form == Format.ELF:
        place = "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
        return f"patchelf --add-rpath {_quote(place)} {{path}}"
    if form == Format.MACHO and needed.startswith("@rpath/"):
        place = "@loader_path" if way == "." else f"@loader_path/{way}"
        return f"install_name_tool -add_rpath {_quote(place)} {{path}}"
    return ""


def _quote(word: str) -> str:
    return shlex.quote(word).replace("{", "{{").replace("}", "}}")


def fill_in(template: str, *, path: str, package: str) -> str:
    """The command for a file of a package; "" where a name would not be safe in a shell, or long.

    Names come out of archives: with a line break or an escape in one, a command is not offered.
    """
    names = {"path": path, "package": package}

    def fill(found: re.Match[str]) -> str:
        name = names[found[1]] if found[1] else ""
        return (
            shlex.quote(f"./{name}" if name.startswith("-") else name) if name else found[2] or ""
        )

    asked = {found[1] for found in _BRACES.finditer(template)} & {"path", "package"}
    command = _BRACES.sub(fill, template)
    whole = all(names[name] for name in asked)
    return command if whole and len(command) <= _LONGEST and one_line(command) == command else ""
