"""Find abbreviations of the standard library in names mangled by the Itanium C++ ABI.

``Ss`` on its own is the old std::string, but in ``9getSslKey`` it is part of an identifier. The
search must therefore skip identifiers, ``<length><letters>``, and must not take other numbers for
lengths. The functions read the grammar's tokens without demangling the name.
"""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"_Z(?:GV|GR|T(?:[VTIS]|c?(?:[hv]n?\d+_(?:n?\d+_)?)+))?")
_SKIPPED = re.compile(
    r"""
      S[0-9A-Z]*_ | S[a-z]                      # substitutions: an earlier one, St, Sa, ...
    | T\d*_ | A\d+_ | Dv\d+_ | f(?:L\d+)?p[rVK]*\d*_   # parameters, array, vector
    | CI?[1-5] | D[0-5]                         # constructors and destructors
    | Ut\d*_ | __\d+_ | _\d                     # unnamed type, discriminators
    """,
    re.VERBOSE | re.ASCII,
)
_NUMBER = re.compile(r"\d+", re.ASCII)
_AFTER_LAMBDA = re.compile(r"\d*_", re.ASCII)
_PLAIN = re.compile(r"_Z(?P<nested>N[rVK]*)?(?=[1-9])")
_LENGTH = re.compile(r"[1-9]\d{0,2}", re.ASCII)
_OWN_NAME = re.compile(r"C[1-3]E|D[0-2]E")
_MICROSOFTS = re.compile(r"\?(?P<own>\?[01])?(?P<names>[A-Za-z_]\w*(?:@[A-Za-z_]\w*)*)@@")
_NESTED = re.compile(r"N[rVK]*[RO]?(\d{1,3})", re.ASCII)
_OPENING = re.compile("[NIJXFZ]|Ul|D[Tt]|L_Z")
"""Tokens that an ``E`` closes. The ``L`` of a literal also needs one, but only among arguments."""
_ARGUMENTS = frozenset({"I", "J", "X"})


def names_old_abi(mangled: str) -> bool:
    """Return whether the name contains a type of libstdc++'s old ABI: std::string or std::list.

    Return False for names that cannot be parsed.
    """
    start = _SPECIAL.match(mangled)
    position, end = (start.end() if start else len(mangled)), len(mangled)
    open_: list[str] = []  # unclosed tokens; "value" is a literal whose type has been read
    while position < end and mangled[position] != ".":  # ".part.0": a compiler's clone
        if mangled.startswith(("Ss", "Sb", "St4list"), position):
            return True
        position = _step(mangled, position, open_)
    return False


def namespace_of(mangled: str) -> str:
    """Return the outermost C++ namespace or class of a nested name, ``tbb``, or ""."""
    start = _SPECIAL.match(mangled)
    found = _NESTED.match(mangled, start.end()) if start else None
    return mangled[found.end() : found.end() + int(found[1])] if found else ""


def readable_name(mangled: str) -> str:
    """Return the qualified name, ``c10::impl::f``, or the mangled name if it is not simple.

    Names may be mangled by the Itanium C++ ABI or by Microsoft's; everything after template
    arguments is left out.
    """
    if special := _MICROSOFTS.match(mangled):
        names = special["names"].split("@")
        own = {"?0": names[0], "?1": f"~{names[0]}"}.get(special["own"] or "")
        return "::".join([*reversed(names), own] if own else [*reversed(names)])
    start = _PLAIN.match(mangled)
    if start is None:
        return mangled
    parts, position = list[str](), start.end()
    while number := _LENGTH.match(mangled, position):
        position = number.end() + int(number[0])
        parts.append(mangled[number.end() : position])
        if not start["nested"]:
            break
    if start["nested"] and parts and (own_name := _OWN_NAME.match(mangled, position)):
        parts.append(f"{'~' if own_name[0][0] == 'D' else ''}{parts[-1]}")
    return "::".join(parts) if position <= len(mangled) and parts else mangled


def _step(mangled: str, position: int, open_: list[str]) -> int:
    """Return the position after one token, and update open_.

    If an identifier is longer than the rest of the name, the result is beyond the end.
    """
    letter, top = mangled[position], open_[-1] if open_ else ""
    if letter == "E":
        closed = open_.pop() if open_ else ""
        if closed in ("N", "F"):
            _pass_type(open_)
        counter = _AFTER_LAMBDA.match(mangled, position + 1) if closed == "Ul" else None
        return counter.end() if counter else position + 1
    number = _NUMBER.match(mangled, position)
    if number:
        if top == "value":
            return number.end()
        _pass_type(open_)
        return number.end() + int(number[0]) if len(number[0]) < 6 else len(mangled)
    opening = _OPENING.match(mangled, position)
    if opening:
        open_.append(opening[0])
        return opening.end()
    if letter == "L":
        if top in _ARGUMENTS:
            open_.append("L")
        return position + 1
    skipped = _SKIPPED.match(mangled, position)
    if skipped or letter.islower():
        _pass_type(open_)
    return skipped.end() if skipped else position + 1


def _pass_type(open_: list[str]) -> None:
    """Mark the innermost open literal, if any: its type has been read, and its value follows."""
    if open_ and open_[-1] == "L":
        open_[-1] = "value"


_QUALIFIERS = re.compile(r"_ZN[VKRO]*")
_PART = re.compile(r"(?P<length>[1-9]\d{0,4})|(?P<made>[CD])[0-5]|(?P<operator>[a-z][a-zA-Z])")
_TAG = "B5cxx11"  # marks functions that return the new std::string


def function_of(mangled: str) -> str:
    """Return the mangled function name without parameters and without ABI tag.

    Return "" for anything but a function, or if its name contains a template or an abbreviation.
    """
    nested = _QUALIFIERS.match(mangled)
    position = nested.end() if nested else 2
    found = "_ZN" if nested else "_Z"
    while position < len(mangled):
        if mangled.startswith(_TAG, position):
            position += len(_TAG)
            continue
        part = _PART.match(mangled, position)
        if nested and mangled[position] == "E":
            return found
        if part is None:
            return ""
        length = int(part["length"] or 0)
        position = part.end() + length
        found += part["made"] or mangled[part.start() : position]
        if not nested:
            return found
    return ""


def is_other_abi(one: str, other: str) -> bool:
    """Return whether two names are one function with the two std::string of libstdc++."""
    new, new_too = "cxx11" in one, "cxx11" in other
    if new == new_too or function_of(one) != function_of(other) or not function_of(one):
        return False
    old, tagged = (other, one) if new else (one, other)
    return tagged.replace(_TAG, "") == old or names_old_abi(old)
