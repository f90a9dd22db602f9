"""Spells which symbols are undefined, and where they were looked for, as parts of sentences."""

from __future__ import annotations

from collections.abc import Callable

from binary_checks.model import Linkage, UnresolvedSymbol
from binary_checks.wording.phrases import name_first

Show = Callable[[str], str]
"""How a linkage shows an object, or where a library comes from."""
_SYSTEM = "system:"
_ABIS = ("new", "old")
_LONGEST = 60  # characters of a symbol in a sentence


def spell_lacking(items: list[UnresolvedSymbol], show: Show) -> str:
    """Say that a library which is asked for symbols does not have them."""
    first = items[0]
    them = "it" if len(items) == 1 else "them"
    slice_of = f" ({first.architecture})" if first.architecture else ""
    other = f"; {show(first.elsewhere)} does" if first.elsewhere else ""
    names = list_symbols([item.name for item in items])
    return (
        f"imports {names}{slice_of} from {first.library}, which does not have {them}{other}: the "
        "file does not load; ship the library that it was linked with"
    )


def spell_undefined(
    items: list[UnresolvedSymbol], show: Show, *, expected: bool, given: str = ""
) -> str:
    """How many symbols, which, where they were looked for and what to do.

    ``given`` names the framework whose they are, where that was given.
    """
    first = items[0]
    names = [f"{item.name}@{item.version}" if item.version else item.name for item in items]
    them = "it" if len(items) == 1 else "them"
    who = "the file" if first.root == first.path else show(first.root)
    sentence = f"has {count_undefined(len(names))} ({list_symbols(names)}): "
    if first.provider:
        if first.provider.startswith(_SYSTEM):
            name = first.provider.removeprefix(_SYSTEM)
            return f"{sentence}{name} never had {them} in that version; rebuild it"
        advice = "bundle the library that it was linked with"
        return f"{sentence}{show(first.provider)} has {them} in another version only; {advice}"
    if first.other_abi:
        has = f"{show(first.other_abi)} has {them}"
        wanted, defined = _ABIS if "cxx11" in first.name else reversed(_ABIS)
        return (
            f"{sentence}{has} for the {defined} std::string, and this file asks for the {wanted} "
            "one; compile both with the same _GLIBCXX_USE_CXX11_ABI"
        )
    if not first.elsewhere:
        lacks = f"nothing that {who} loads defines {them}; link it with the library that does"
        if given:
            lacks = f"the {given} given beside it does not have {them}; build it for that one"
        return f"{sentence}{lacks}"
    other = show(first.elsewhere)
    if expected:
        return f"{sentence}it works only in a process that has already loaded {other}"
    return f"{sentence}{other} defines {them}, but {who} does not load that; link with it"


def spell_lent(items: list[UnresolvedSymbol], linkage: Linkage) -> str:
    """Say that what is required, and was not given, may define symbols for the whole process."""
    names = list_symbols([item.name for item in items])
    whose = name_first(linkage.requirements)
    return (
        f"has {count_undefined(len(items))} ({names}): the package's own code says RTLD_GLOBAL, "
        f"with which {whose} may define them; give that with --binary-with"
    )


def count_undefined(number: int) -> str:
    """Count undefined symbols."""
    return f"{number} undefined symbol{'' if number == 1 else 's'}"


def list_symbols(names: list[str], most: int = 3) -> str:
    """The first of the names, long ones (C++'s) cut."""
    shown = (name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in names[:most])
    return name_first([*shown, *names[most:]], most)
