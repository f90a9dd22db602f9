"""Parts of sentences that several checks share."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from binary_checks.model import (
    SPECIAL_BUILDS,
    BinaryConfiguration,
    ClaimSource,
    ConfigurationClaim,
    Edge,
    ElfFile,
    Ending,
    Finding,
    Format,
    ImportReport,
    Kind,
    Layout,
    Linkage,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    MachOFile,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    PeFile,
    Problem,
    Provenance,
    Step,
    UnresolvedSymbol,
    find_disputes,
    is_open_to_all,
    path_elements,
    path_tag,
    shorten,
)
from binary_checks.safe_text import SHOWN_NAME, elide, one_line

# Phrases that the sentences of several checks contain.


def name_first(names: Collection[str], most: int = 3, total: int | None = None) -> str:
    """Return the first names, and how many more there are: ``a, b, c and 4 more``.

    ``total`` is the number of all names if ``names`` is not complete.
    """
    total = len(names) if total is None else total
    shown = ", ".join(elide(name, SHOWN_NAME) for name in islice(names, most))
    return f"{shown} and {total - most} more" if total > most else shown


# Commands that mend a problem, as templates; a report fills in the package or one of its files.

SIGN = "codesign --force --sign - {path}"
_LONGEST_COMMAND = 300  # characters of a command that a line shows
_REPAIRS = {
    Format.ELF: "auditwheel repair {package}",
    Format.MACHO: "delocate-wheel -w repaired {package}",
    Format.PE: "delvewheel repair {package}",
    Format.WASM: "pyodide auditwheel repair {package}",
}
_BRACES = re.compile(r"\{(path|package)\}|([{}])\2")


def bundle(form: str) -> str:
    """Return the command that copies needed libraries into a wheel; "" if there is none."""
    return next((command for each, command in _REPAIRS.items() if each == form), "")


def retag(platform: str) -> str:
    """Return the command that gives a wheel another platform tag."""
    return f"wheel tags --remove --platform-tag {_quote(platform)} {{package}}"


def drop_elements(library: ElfFile | MachOFile, dropped: Collection[str]) -> str:
    """Return the command that removes elements of a search path and keeps the others."""
    if isinstance(library, MachOFile):
        words = " ".join(f"-delete_rpath {_quote(element)}" for element in dict.fromkeys(dropped))
        return f"install_name_tool {words} {{path}}"
    kept = [element for element in path_elements(library) if element not in dropped]
    if not kept:
        return "patchelf --remove-rpath {path}"
    # Without --force-rpath patchelf makes a RUNPATH of an RPATH, which is searched later.
    force = "" if library.runpath else "--force-rpath "
    return f"patchelf {force}--set-rpath {_quote(':'.join(kept))} {{path}}"


_ORIGIN_TAKEN = re.compile(r"""['"\\$]*(?:O?RIGIN|\{O?RIGIN\})(?=['"]?(?:/|\Z))""")
"""A spelling of ``$ORIGIN`` of which make took ``$O``, or which was quoted twice."""


def restore_origin(element: str) -> str:
    """Return an element of a search path that was to begin with $ORIGIN; "" for any other."""
    match = _ORIGIN_TAKEN.match(element)
    if match is None or match[0] in {"$ORIGIN", "${ORIGIN}"}:
        return ""
    rest = element[match.end() :]
    return "$ORIGIN" + rest.replace("'", "").replace('"', "")


def set_search_path(library: ElfFile | MachOFile, restored: Mapping[str, str]) -> str:
    """Return the command that replaces elements of an ELF object's search path."""
    if isinstance(library, MachOFile):
        return ""
    elements = [restored.get(element, element) for element in path_elements(library)]
    force = "" if library.runpath else "--force-rpath "
    return f"patchelf {force}--set-rpath {_quote(':'.join(elements))} {{path}}"


def remove_need(name: str) -> str:
    """Return the command that removes from an ELF object a needed library that it does not use."""
    return f"patchelf --remove-needed {_quote(name)} {{path}}"


def add_to_search_path(folder: str, path: str, needed: str, form: str) -> str:
    """Return the command that adds a folder to an object's search path; "" if none does.

    Both paths are relative to the prefix.
    """
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
    """Return the command for a file of a package; "" if it would be unsafe or too long.

    Names come out of archives: no command is offered for a name with a line break or an escape in
    it.
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
    return (
        command
        if whole and len(command) <= _LONGEST_COMMAND and one_line(command) == command
        else ""
    )


# The places searched for a needed library, and packages that may provide it, as parts of sentences.

_WHOLE_PATH = 300  # characters of a search path that a sentence shows
_MOST_DIRECTORIES = 8  # directories in a sentence; ibm_db's objects have two dozen

Owners = Mapping[tuple[str, str], ObjectFile]
"""The objects of a package by path and architecture, as edges refer to them."""


def owners(package: Package) -> Owners:
    """Return the objects that the edges of a linkage belong to."""
    return {(item.path, item.architecture): item for item in package.objects}


def is_executable(edge: Edge, found: Owners) -> bool:
    """Whether the object with the need is a program, before which nothing can have been loaded."""
    owner = found.get((edge.path, edge.architecture))
    return owner is not None and owner.kind is Kind.EXECUTABLE


_SHOWN_ELEMENTS = 8
"""Limit on elements of a search path to name; every need of an object would look at all of them."""


def format_searched(edge: Edge, found: Owners, layout: Layout) -> str:
    """Return where the loader searched: ``searched demo/, demo.libs/``."""
    if edge.searched:
        return f"searched {format_directories(edge.searched, layout)}"
    owner = found.get((edge.path, edge.architecture))
    if owner is not None and path_elements(owner):
        first = path_elements(owner)[:_SHOWN_ELEMENTS]
        open_to_all = [each for each in first if is_open_to_all(each)]
        named = f" {shorten(open_to_all[0])}" if open_to_all else ""  # of a build in /tmp
        return f"its {path_tag(owner)}{named} leads nowhere in the package"
    if isinstance(owner, PeFile):
        return "no directory of the package is searched for it"
    return "it has no search path"


def format_directories(directories: Sequence[str], layout: Layout) -> str:
    """Return the first directories, relative to the prefix, and how many more there are."""
    shown = (layout.shorten(directory) or "." for directory in directories[:_MOST_DIRECTORIES])
    return name_first([f"{shorten(each)}/" for each in shown], _MOST_DIRECTORIES, len(directories))


def format_elements(library: ObjectFile, elements: Iterable[str]) -> str:
    """Return the elements of a search path: ``looks for libraries in /a, /b (RUNPATH)``."""
    names = [shorten(element) for element in dict.fromkeys(elements)]
    return f"looks for libraries in {name_first(names, _MOST_DIRECTORIES)} ({path_tag(library)})"


def format_empty_elements(library: ObjectFile) -> str:
    """Return which elements of a search path are empty, and the whole path."""
    elements = path_elements(library)
    empty = [number for number, element in enumerate(elements, 1) if not element]
    if len(empty) == len(elements):
        which = f"all {len(empty)} elements of which are empty"
    elif len(empty) > 1:
        which = f"{len(empty)} of whose {len(elements)} elements are empty"
    else:
        places = {1: "first element", len(elements): "last element"}
        which = f"whose {places.get(empty[0], f'element {empty[0]}')} is empty"
    return f'has the {path_tag(library)} "{shorten(":".join(elements), _WHOLE_PATH)}", {which}'


def list_needed(edges: Iterable[Edge]) -> tuple[str, ...]:
    """Return the names of the libraries that are needed, each once."""
    return tuple(dict.fromkeys(edge.needed for edge in edges))


def name_needed(edges: Iterable[Edge]) -> str:
    """Return the first names of the libraries that are needed, and how many more there are."""
    return name_first(list_needed(edges))


def name_places(edges: Iterable[Edge], linkage: Linkage) -> str:
    """Return the places of needed libraries to which no search path leads, each place once."""
    places = (linkage.layout.shorten_label(edge.resolved or edge.elsewhere[0]) for edge in edges)
    return name_first(tuple(dict.fromkeys(places)))


def format_found_by_load_order(edges: Sequence[Edge], linkage: Linkage, searched: str) -> str:
    """Return the sentence for libraries that are found only through the load order."""
    first, places = edges[0], name_places(edges, linkage)
    them, are, were = ("it", "is", "was") if len(edges) == 1 else ("them", "are", "were")
    needs = f"needs {name_needed(edges)} and does not find {them} ({searched})"
    if first.resolved:
        opened = linkage.layout.shorten_label(first.root)
        return f"{needs}: it loads only because {opened}, when opened, loads {places} first"
    lie = f"{were} given" if places.startswith("wheel:") else f"{are} in the package"
    return (
        f"{needs}: {places} {lie}, but the search does not lead there; it loads only once "
        f"something else has loaded {them}{format_own_loading(first, linkage)}"
    )


def format_own_loading(edge: Edge, linkage: Linkage) -> str:
    """Return a clause saying that the package's own code may load the library; "" if irrelevant."""
    code, find_dispensable = linkage.loading_code, linkage.find_dispensable(edge.path)
    if not code or (find_dispensable is not None and find_dispensable.complete):
        return ""
    return f", as the package's own code may do ({code})"


def format_unreachable(edges: Sequence[Edge], linkage: Linkage, searched: str) -> str:
    """Return the sentence for libraries of the package to which no search path leads."""
    them, are = ("it", "is") if len(edges) == 1 else ("them", "are")
    return (
        f"needs {name_needed(edges)} and does not find {them} ({searched}): "
        f"{name_places(edges, linkage)} {are} in the package, but no search path leads there: this "
        "file does not load"
    )


def report_unsearched_library(edge: Edge, searched: str, linkage: Linkage, cause: str) -> Finding:
    """Report a library that exists where an executable does not search for it.

    On Windows this is a note: a script that starts the program may have put the directory on PATH,
    as panda3d's do.
    """
    place = linkage.layout.shorten_label(edge.elsewhere[0])
    lies = "was given" if place.startswith("wheel:") else "is in the package"
    if linkage.format == Format.PE:
        sentence = f"needs {edge.needed} ({searched}): it starts only where PATH leads to {place}"
        return Note(path=edge.path, sentence=sentence)
    return Problem(
        path=edge.path,
        sentence=f"needs {edge.needed} and does not start without it ({searched}); "
        f"{place} {lies}, but no search path leads there",
        facts=(edge.needed,),
        cause=cause,
        command=choose_search_path_command(edge, linkage),
    )


def choose_search_path_command(edge: Edge, linkage: Linkage) -> str:
    """Return the command that lets an object find a library of the package; "" if none."""
    place = edge.resolved or next(iter(edge.elsewhere), "")
    if not place or ":" in place:
        return ""
    return add_to_search_path(place.rpartition("/")[0], edge.path, edge.needed, linkage.format)


# Undefined symbols, and where they were looked for, as parts of sentences.

Show = Callable[[str], str]
"""Returns how a linkage shows an object, or the origin of a library."""
_SYSTEM = "system:"
_ABIS = ("new", "old")
_TAKES_NEW_STRING = r"_Z(?!(?:T[VTIS])?N?K?St).*cxx11"
"""Matches mangled names that mention the new std::string and are not libstdc++'s own."""
_LONGEST_SYMBOL = 60  # characters of a symbol in a sentence


def format_lacking_symbols(
    items: list[UnresolvedSymbol], show: Show, *, system: bool = False
) -> str:
    """Return the sentence for symbols that are missing from the library they are imported from.

    ``system`` states whether that library belongs to the system.
    """
    first = items[0]
    them = "it" if len(items) == 1 else "them"
    slice_of = f" ({first.architecture})" if first.architecture else ""
    other = f"; {show(first.elsewhere)} does" if first.elsewhere else ""
    names = format_symbols([item.name for item in items])
    return (
        f"imports {names}{slice_of} from {first.library}, which does not have {them}{other}: the "
        f"file does not load{'' if system else '; ship the library that it was linked with'}"
    )


def format_undefined_symbols(
    items: list[UnresolvedSymbol], show: Show, *, expected: bool, given: str = ""
) -> str:
    """Return a sentence with the number and names of undefined symbols, the reason, and a remedy.

    ``given`` names the framework that defines them, if its package was given.
    """
    first = items[0]
    names = [f"{item.name}@{item.version}" if item.version else item.name for item in items]
    them = "it" if len(items) == 1 else "them"
    who = "the file" if first.root == first.path else show(first.root)
    sentence = f"has {count_undefined(len(names))} ({format_symbols(names)}): "
    if first.provider:
        if first.provider.startswith(_SYSTEM):
            name = first.provider.removeprefix(_SYSTEM)
            return f"{sentence}{name} never had {them} in that version; rebuild this file"
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
        if options := sorted({SPECIAL_BUILDS[name] for name in names if name in SPECIAL_BUILDS}):
            lacks = (
                f"only a Python configured with {' or '.join(options)} has such a symbol; build "
                "the file with a plain Python"
            )
        elif all(re.match(_TAKES_NEW_STRING, name) for name in names):
            lacks += (
                ", compiled for the new std::string (_GLIBCXX_USE_CXX11_ABI=1), as this file is"
            )
        if first.since:
            lacks = (
                f"{first.library} has {them} only since {first.since}, which is newer than the tag "
                "promises; "
            ) + (
                f"link with {first.before}, which has {them} in older systems"
                if first.before
                else "build on a system as old as the tag promises, or use a newer tag"
            )
        if given:
            lacks = (
                f"the {given} that was given does not have {them}; build this file for that {given}"
            )
        return f"{sentence}{lacks}"
    other = show(first.elsewhere)
    if expected:
        return f"{sentence}it works only in a process that has already loaded {other}"
    return f"{sentence}{other} defines {them}, but {who} does not load that; link with it"


def format_symbols_of_requirements(items: list[UnresolvedSymbol], linkage: Linkage) -> str:
    """Return the sentence for symbols that a required package, which was not given, may define."""
    names = format_symbols([item.name for item in items])
    whose = name_first(linkage.requirements)
    return (
        f"has {count_undefined(len(items))} ({names}): the package's own code uses "
        f"RTLD_GLOBAL, so {whose} may define them; give that wheel with --binary-with"
    )


def count_undefined(number: int) -> str:
    """Return the number of undefined symbols with its noun."""
    return f"{number} undefined symbol{'' if number == 1 else 's'}"


def format_symbols(names: list[str], most: int = 3) -> str:
    """Return the first of the names; long ones (of C++) differ at their ends, which are kept."""
    shown = (elide(name, _LONGEST_SYMBOL) for name in names[:most])
    return name_first([*shown, *names[most:]], most)


# The results of a probe's step: how it ended, what it found, and which lines of stderr count.

# What the loader, the C library or the interpreter itself writes when something is badly wrong. A
# package's own "cannot open shared object file" is not such a text: optional plug-ins print it.
_FATAL_TEXT = (
    r"symbol lookup error:|error while loading shared libraries:|undefined symbol: "
    r"|no version information available \(required by|Inconsistency detected by ld\.so"
    r"|in static TLS block|^dyld(?:\[\d+\])?: |^Fatal Python error: |^terminate called "
    r"|\*\*\* stack smashing detected|^(?:double free or corruption|free\(\): invalid|malloc\(\): )"
    r"|^(?:corrupted (?:size|double)|munmap_chunk\(\): )"
)
_LONGEST_REMARK = 200  # characters
_GIL_MODULE = r"enabled to load module '(?P<name>[^']+)'"


_OF_RUNTIME = re.compile(r"^==\d+==\s*(?P<text>\S.*)", re.MULTILINE)
"""What a sanitizer's runtime writes, with the number of its process."""
_VARYING = (
    (re.compile(r"\b0x[0-9a-fA-F]+"), "0x..."),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,Z+:-]*\s*"), ""),
)
"""Addresses and times, which differ from run to run."""


def find_last_words(step: Step) -> str:
    """Return the line in which a process, or a sanitizer in it, says why it ends; or ""."""
    lines = [line.strip() for line in step.stderr.splitlines() if line.strip()]
    own = _OF_RUNTIME.search(step.stderr)
    said = own["text"] if own else next(reversed(lines), "") * (step.outcome is Ending.EXITED)
    for pattern, shown in _VARYING:
        said = pattern.sub(shown, said)
    return shorten(one_line(said), _LONGEST_REMARK)


def describe_end(step: Step) -> str:
    """Return how a step ended, as the end of a sentence."""
    end = "exits too early" if step.finished else "ends the process"
    said = f": {words}" if (words := find_last_words(step)) else ""
    return {
        Ending.RAISED: f"raises {step.detail}",
        Ending.LOADER_ERROR: f"is refused by the loader: {step.detail}",
        Ending.CRASHED: f"crashes: {step.detail}{said}",
        Ending.HUNG: f"hangs: {step.detail}",
        Ending.STOPPED: f"is stopped: {step.detail}",
        Ending.EXITED: f"{end}: {step.detail}{said}",
        Ending.OK: "succeeds",
    }[step.outcome]


def read_stderr(step: Step) -> Iterator[Finding]:
    """Report the system's lines on stderr; the package's own last line is a note.

    Only a step whose process wrote nothing else to stderr is judged.
    """
    if step.finished:
        yield NotInspected(
            sentence=f"import {step.name} shares its stderr with a process that ended badly"
        )
    elif step.outcome is Ending.OK:
        for line in find_fatal_lines(step.stderr):
            yield Problem(
                sentence=f"import {step.name} makes the system write: {line}",
                facts=(step.name, line),
            )
        if remark := find_remark(step.stderr):
            yield Note(sentence=f"import {step.name} writes to stderr: {remark}")


def find_fatal_lines(stderr: str) -> tuple[str, ...]:
    """Return the lines by which the system reports an error, each once, without process numbers."""
    lines = [line for line in stderr.splitlines() if re.search(_FATAL_TEXT, line)]
    return tuple(dict.fromkeys(re.sub(r"\[\d+\]", "", line).strip() for line in lines))


def find_gil_modules(stderr: str) -> tuple[str, ...]:
    """Return the modules for which a free-threaded interpreter enables the GIL."""
    return tuple(sorted({match["name"] for match in re.finditer(_GIL_MODULE, stderr)}))


def find_unfinished(steps: Iterable[Step]) -> Iterator[NotInspected]:
    """Report imports that failed: it is unknown what they would do after they succeed."""
    for step in steps:
        if step.outcome is not Ending.OK and not step.finished:
            yield NotInspected(sentence=f"import {step.name} did not succeed")


def find_untried(report: ImportReport) -> Iterator[NotInspected]:
    """Report, in one line, imports that were not started."""
    if report.untried:
        sentence = f"import of {name_first(report.untried)} was not tried: {report.limit}"
        yield NotInspected(sentence=sentence)


def find_remark(stderr: str) -> str:
    """Return the last line of stderr that no check judges, and how many more there are; or "".

    An indented line belongs to the line above it: Python shows source below a warning.
    """
    counted = find_fatal_lines(stderr)
    lines = [
        line.strip()
        for line in stderr.splitlines()
        if line.strip() and not line[0].isspace() and not re.search(_GIL_MODULE, line)
    ]
    lines = [line for line in lines if re.sub(r"\[\d+\]", "", line).strip() not in counted]
    if not lines:
        return ""
    last, more = lines[-1], len(lines) - 1
    shown = elide(last, _LONGEST_REMARK)
    return f"{shown} (after {more} more)" if more else shown


def find_shadowed(step: Step, hashes: Mapping[str, str]) -> Iterator[Finding]:
    """Report an import that found a file other than the installed one; ``hashes`` are by path.

    Failed imports are not reported here.
    """
    if step.outcome is not Ending.OK and not step.finished:
        return
    if not step.origin:
        yield NotInspected(sentence=f"import {step.name} does not say which file it found")
    elif step.origin not in hashes:
        yield Problem(
            sentence=f"import {step.name} finds {step.origin}, which is not part of this package",
            facts=(step.name, step.origin),
        )
    elif not step.origin_sha256:
        yield Problem(
            sentence=f"import {step.name} removes {step.origin}", facts=(step.name, step.origin)
        )
    elif hashes[step.origin] not in {"", step.origin_sha256}:
        yield Problem(
            sentence=f"import {step.name} finds {step.origin} with different contents than in the "
            "wheel",
            facts=(step.name, step.origin),
        )


def format_module_name(path: str) -> str:
    """Return the dotted name by which the extension module at a path is imported."""
    folder, slash, file_name = path.rpartition("/")
    return (folder + slash).replace("/", ".") + file_name.partition(".")[0]


# A binary configuration in one line, and one of its claims in a sentence.

ASPECT_WORDS = {
    "kind": "the kind of package",
    "python": "Python",
    "accelerator": "the accelerator",
    "system": "the system",
    "architecture": "the architecture",
    "cxx_abi": "the C++ ABI",
    "libtorch_variant": "the libtorch variant",
    "channel": "the channel",
    "version": "the version",
    "date": "the date",
}
_PREFIXES = {"python": "Python ", "cxx_abi": "C++ ABI ", "date": "of "}
_MOST_VALUES = 6  # values of one aspect in a line: a package may be for several Pythons


def describe_configuration(configuration: BinaryConfiguration) -> str:
    """Return the known aspects of a configuration, and mark those on which sources disagree."""
    described = []
    for name, aspect in configuration.aspects():
        if not aspect.value:
            continue
        values = aspect.value.split(", ")
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        disputed = any(not one.by_absence for one, _ in find_disputes(name, aspect.claims))
        mark = " (disputed)" if disputed else ""
        named = " or ".join(values[:_MOST_VALUES])
        described.append(f"{_PREFIXES.get(name, '')}{named}{more}{mark}")
    return ", ".join(described)


def format_claim(claim: ConfigurationClaim) -> str:
    """Return a claim with its source: "DESIRED_CUDA=cu126 says cuda 12.6"."""
    if claim.source is ClaimSource.BYTES:
        return f"{claim.evidence}: {claim.shown}"
    return f"{claim.evidence} says {claim.shown}"


def describe_linked(linked: LinkedLibraries) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for linked-in libraries, for needed libraries, and for compilers."""
    for linking in (Linking.STATIC, Linking.DYNAMIC):
        places: dict[str, list[str]] = {}
        for each in linked.libraries:
            if each.linking is linking:
                name = f"{each.name} {each.version}".rstrip()
                places.setdefault(name, []).append(_place_library(each))
        if places:
            shown = (f"{name} ({', '.join(where)})" for name, where in places.items())
            yield linking.value, ", ".join(shown)
    if linked.compilers:
        yield "compilers", ", ".join(linked.compilers)


def _place_library(library: LinkedLibrary) -> str:
    if library.whence is not None:
        return f"{library.whence.value} {library.file}"
    more = f" and {library.objects - 1} more" if library.objects > 1 else ""
    return f"in {library.evidence.partition(': ')[0].rpartition('/')[2]}{more}"


# Where a published package comes from, and what its index says about it, in a few words.


def describe_origin(provenance: Provenance) -> str:
    """Return one line: the index or the URL, the hash of the file, and anything unusual."""
    return "; ".join(_list_origin(provenance))


def _list_origin(provenance: Provenance) -> Iterator[str]:
    yield f"from {provenance.index or provenance.url}"
    if provenance.sha256_taken:
        checked = "" if provenance.sha256 else ", which nobody states"
        yield f"sha256 {provenance.sha256_taken}{checked}"
    elif provenance.sha256:
        yield f"not downloaded: the index states sha256 {provenance.sha256}"
    if provenance.metadata in ("PEP 658", "ranges"):
        yield f"metadata by {provenance.metadata}"
    if provenance.attestation:
        yield f"attestation {provenance.attestation}"
    if provenance.yanked is not None:
        yield f"yanked: {provenance.yanked}" if provenance.yanked else "yanked"
