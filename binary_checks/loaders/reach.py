"""Objects of a package that its users reach, and objects that are known to be optional.

These objects are reached: every extension module in site-packages, because Python imports it;
objects that the package's own code names or opens; objects where other packages search for
libraries (outside of site-packages) or users search for programs; and everything that a reached
object needs by name. If a package has none of these, as a package that contains only libraries, it
serves other packages, and all its objects are reached.

No import reaches any other object: plugins that native code opens by a name computed at run time,
programs that nobody starts, helpers that other programs load. It is unknown whether users meet a
fault in such an object. A name among the strings of native code is only an attempt, because the
code handles a failure of dlopen (libtbbbind of tbb); it counts only for the package's own
libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from binary_checks.knowledge.library_names import RequiredNames, explain_plugin, find_shippers
from binary_checks.knowledge.tags import is_loaded
from binary_checks.model import (
    CodeNames,
    DispensableObject,
    Format,
    Kind,
    Linkage,
    ObjectFile,
    Package,
    UnknownSymbols,
    find_names_in_extras,
    is_extension,
)
from binary_checks.wording.sentences import name_first

_HELPERS = {
    "ompt_start_tool": "OpenMP runtimes open it if a user asks for a tool",
    "ompd_initialize": "debuggers open it",
    "malloc": "it replaces malloc if a user preloads it",
}
"""Symbols exported by libraries that are made for another program, and how the program loads them:
libarcher and libiomp5_db of Intel's OpenMP, libtbbmalloc_proxy of tbb.
"""
_PLUGINS = re.compile(r"(?:.*-)?plugins?|qml")  # a folder with a hyphen is no Python package
_LIBCS = {"musllinux": "musl", "manylinux": "gnu"}
_LIBC = re.compile(r"(?<![a-z])(?:gnu|musl)(?![a-z])")
_MOST = 2  # names in a sentence
UNREACHED = "no import of the package reaches it"
GOES_ON = "the package continues without it"


def find_dispensable_objects(
    package: Package, linkage: Linkage, code: CodeNames, tried: Iterable[str] = ()
) -> Iterator[DispensableObject]:
    """Yield the objects that a package can do without, by path.

    ``tried`` are extension modules whose import may fail without stopping the package. If all
    modules of the package are among them, none counts as optional, since a platform tag would then
    promise nothing (MarkupSafe, simplejson).
    """
    if code.unread:
        return
    objects = {item.path: item for item in package.objects if is_loaded(item)}
    found = {each.path: each for each in _judge(package, linkage, code, frozenset(tried), objects)}
    for path, other in _find_twins(objects, linkage).items():
        reason = f"{linkage.layout.shorten_label(other)} is the same for this system's C library"
        found[path] = DispensableObject(path=path, reason=reason)
    yield from (found[path] for path in sorted(found))


def _judge(
    package: Package,
    linkage: Linkage,
    code: CodeNames,
    tried: frozenset[str],
    objects: dict[str, ObjectFile],
) -> Iterator[DispensableObject]:
    """Yield the objects that no import or program needs, or only under a condition."""
    if all(path in tried for path, item in objects.items() if is_extension(item)):
        tried = frozenset()
    replaced = dict(_find_replaced(objects, linkage, code))
    needs = {path: found - replaced.keys() for path, found in _read_needs(linkage).items()}
    for path, found in _read_refused(objects, linkage).items():
        needs[path] = needs.get(path, set()) | found
    demanded = _follow(_find_demanded(package, code, replaced.keys()), needs)
    guided = _find_guided(objects, code)
    extra = _find_needs_of_extras(package, linkage)
    reasons = dict(_find_opened(objects, demanded))
    attempted = _follow(reasons, needs)
    for path in sorted(objects):
        item = objects[path]
        if path in tried:
            yield DispensableObject(path=path, reason=GOES_ON, complete=False)
        elif path in extra:
            which = "an extra" if len(extra[path]) == 1 else "extras"
            verb = "requires" if len(extra[path]) == 1 else "require"
            names = name_first(extra[path], _MOST)
            reason = f"{which} of the package {verb} {names} for it"
            yield DispensableObject(path=path, reason=reason, complete=False, cause="extras")
        elif path in guided:
            reason = "the package's own code starts it with a search path in its environment"
            if item.kind is not Kind.EXECUTABLE:
                reason = "the package's own code lets a program open it with a search path"
            yield DispensableObject(path=path, reason=reason)
        elif path in demanded:
            continue
        elif path in replaced:
            reason = (
                f"{linkage.layout.shorten_label(replaced[path])} has the same name, "
                "and finds all its libraries"
            )
            yield DispensableObject(path=path, reason=reason, complete=False)
        elif path in attempted:
            reason = reasons.get(path, "only libraries that are opened by name need it")
            yield DispensableObject(path=path, reason=reason, complete=False)
        else:
            plugin = explain_plugin(item.file_name)
            reason = plugin or _find_helper(item) or UNREACHED
            yield DispensableObject(path=path, reason=reason, cause=plugin)


def _find_twins(objects: Iterable[str], linkage: Linkage) -> dict[str, str]:
    """Map objects for the other C library to those for the target's, which have its name instead.

    scrapli opens libscrapli-x86_64-linux-gnu.so.0.0.6 on glibc, …-linux-musl.so.0.0.6 on musl.
    """
    own = next((libc for tag, libc in _LIBCS.items() if linkage.target.startswith(tag)), "")
    if not own:
        return {}
    places: dict[str, dict[str, str]] = {}
    for path in objects:
        directory, _, name = path.rpartition("/")
        if match := _LIBC.search(name):
            plain = f"{directory}/{name[: match.start()]}*{name[match.end() :]}"
            places.setdefault(plain, {})[match[0]] = path
    return {
        path: found[own]
        for found in places.values()
        for libc, path in found.items()
        if libc != own and own in found
    }


def _find_guided(objects: Mapping[str, ObjectFile], code: CodeNames) -> frozenset[str]:
    """Return programs that code starts with a search path, and objects that they may open.

    ai_edge_litert passes the name of libLiteRtCompilerPlugin_Qualcomm.so to apply_plugin_main,
    which opens that library.
    """
    known = {path: objects[path] for path in code.named & objects.keys()}
    programs = {path for path, item in known.items() if item.kind is Kind.EXECUTABLE}
    started = programs & code.guided
    return frozenset(started | (known.keys() - programs if started else set()))


def _find_needs_of_extras(package: Package, linkage: Linkage) -> dict[str, list[str]]:
    """Map objects to the requirements of extras that may provide a library they lack.

    kivy's gstplayer needs gstreamer-1.0-0.dll, and Kivy[media] requires kivy-deps.gstreamer.
    onnxruntime-gpu's provider needs seven libraries of CUDA, some of which its extras provide only
    indirectly: none of the five required wheels is named after cublas.
    """
    every = find_names_in_extras(package.claims.requirements)
    builds = "-dev"  # suffix of requirements that an extra needs only for builds
    names = RequiredNames(sorted(name for name in every if not name.endswith(builds)))
    found: dict[str, set[str]] = {}
    for edge in linkage.edges if names.names else ():
        if edge.resolved is None and not edge.elsewhere and not edge.may_come_with:
            found.setdefault(edge.path, set()).update(find_shippers(edge.needed, names))
    return {path: sorted(shippers) for path, shippers in found.items() if shippers}


def _read_needs(linkage: Linkage) -> dict[str, set[str]]:
    """Map each object's path to the objects that it may load.

    A need that no search path finds leads to a group: all files elsewhere that have the library's
    name. Objects share groups, because many objects may have the same need and many files the same
    name. The name of a group is not a path.
    """
    needs: dict[str, set[str]] = {}
    for edge in linkage.edges:
        found = needs.setdefault(edge.path, set())
        found.update(filter(None, (edge.resolved, edge.shadowed)))
        if edge.elsewhere:
            group = f"\0{id(edge.elsewhere)}"
            found.add(group)
            if group not in needs:
                needs[group] = set(edge.elsewhere)
    return needs


def _read_refused(objects: Mapping[str, ObjectFile], linkage: Linkage) -> dict[str, set[str]]:
    """Map paths to needed libraries of which the package has files for another architecture alone.

    Loaders pass over such a file, and the library counts as missing. The files of one name and
    architecture are a group, as in `_read_needs`.
    """
    groups: dict[str, dict[str, set[str]]] = {}
    for item in objects.values():
        group = groups.setdefault(item.file_name, {})
        group.setdefault(item.architecture, set()).add(item.path)
    needs: dict[str, set[str]] = {}
    for edge in linkage.edges:
        group = groups.get(edge.needed.rpartition("/")[2], {})
        if edge.resolved is None and not edge.elsewhere:
            for architecture in group.keys() - {edge.architecture}:
                name = f"\0{id(group[architecture])}"
                needs.setdefault(edge.path, set()).add(name)
                needs.setdefault(name, group[architecture])
    return needs


def _follow(beginning: Iterable[str], needs: dict[str, set[str]]) -> set[str]:
    found = dict.fromkeys(beginning)
    queue = list(found)
    for path in queue:
        for other in needs.get(path, ()):
            if other not in found:
                found[other] = None
                queue.append(other)
    return set(found)


def _find_replaced(
    objects: Mapping[str, ObjectFile], linkage: Linkage, code: CodeNames
) -> Iterator[tuple[str, str]]:
    """Yield each named object that lacks libraries, with a file of the same name that lacks none.

    tables tries libblosc2.dll in tables.libs, and the file next to the module, which needs DLLs
    that delvewheel renamed when it repaired the first file. Windows uses the loaded file for all
    needs of that name.
    """
    if linkage.format != Format.PE:
        return
    lacking = {edge.path for edge in linkage.edges if edge.resolved is None and not edge.delayed}
    broken = _follow(lacking, _reverse(_read_needs(linkage)))
    whole = {_identify(item): path for path, item in objects.items() if path not in broken}
    for path in sorted(code.named & objects.keys() & broken):
        if other := whole.get(_identify(objects[path])):
            yield path, other


def _reverse(needs: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Map each object's path to the objects that may load it."""
    users: dict[str, set[str]] = {}
    for path, found in needs.items():
        for other in found:
            users.setdefault(other, set()).add(path)
    return users


def _identify(item: ObjectFile) -> tuple[str, str]:
    return item.file_name.lower(), item.architecture


def _find_demanded(package: Package, code: CodeNames, replaced: Collection[str]) -> set[str]:
    """Return the paths of the objects without which the package fails.

    Code that names an object in ``replaced`` does not need it: another file with that name works.
    """
    known = code.named.difference(replaced)
    loaded = [item for item in package.objects if is_loaded(item)]
    outside = {item.path for item in loaded if package.layout.inside(item.path) is None}
    # A wheel may install an extension module where Python looks for none (``.data/data``).
    stray = outside if package.layout.climbs else set()
    objects = [i for i in loaded if i.path in known or i.path not in stray or not is_extension(i)]
    begun = {item.path for item in objects if is_extension(item) or item.path in known}
    begun |= set(_find_completed(code))
    offered = {item.path for item in objects if item.path in outside}
    if not begun:
        offered = {item.path for item in objects}
    return begun | (offered - set(_find_optional(objects)))


def _find_completed(code: CodeNames) -> Iterator[str]:
    """Yield objects that code may open by a name that it completes.

    If code also names a library in the same folder, none is yielded: that library works everywhere,
    and the others are for some machines. bitsandbytes opens libbitsandbytes_cpu.so, or one of a
    dozen for versions of CUDA and ROCm.
    """
    spelled = {path.rpartition("/")[0] for path in code.named}
    yield from (path for path in code.completed if path.rpartition("/")[0] not in spelled)


def _find_optional(objects: Collection[ObjectFile]) -> Iterator[str]:
    """Yield objects that something may open, but that no object needs by name.

    These are helpers of other programs, libraries named in strings of other objects, and libraries
    in a folder of plugins (pyqt5_qt5 has Qt without Python code, with plugins for parts of Qt that
    it lacks; tensorflow opens what tensorflow_metal installs in tensorflow-plugins).
    """
    needed = {need.name.rpartition("/")[2] for item in objects for need in item.needed}
    strings = {name for item in objects if item.opened for name in item.opened.names}
    for item in objects:
        names = {item.file_name, item.name} - {""}
        plugin = any(map(_PLUGINS.fullmatch, item.directory.lower().split("/")))
        if _find_helper(item) or (not names & needed and (plugin or names & strings)):
            yield item.path


def _find_opened(objects: dict[str, ObjectFile], demanded: set[str]) -> Iterator[tuple[str, str]]:
    """Yield objects that demanded objects name in their strings, with the reason."""
    names = {
        name: item.file_name
        for path, item in objects.items()
        if path in demanded and item.opened
        for name in item.opened.names
    }
    for path, item in objects.items():
        opener = names.get(item.file_name) or names.get(item.name)
        if opener and path not in demanded:
            yield path, f"{opener} opens it by name, and handles a failure to load it"


def _find_helper(item: ObjectFile) -> str:
    if plugin := explain_plugin(item.file_name):
        return plugin
    if item.format == Format.PE or isinstance(item.exports, UnknownSymbols) or is_extension(item):
        return ""  # Windows has no preloading
    found = item.exports.among(tuple(_HELPERS))
    return next((_HELPERS[name] for name in _HELPERS if name in found), "")
