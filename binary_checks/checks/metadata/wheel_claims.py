"""What a wheel claims: file name, tags, METADATA and WHEEL, compared with its contents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from binary_checks.declaring import check
from binary_checks.knowledge.stated_versions import same_version
from binary_checks.knowledge.unloaded_objects import could_not_look
from binary_checks.model import (
    CodeNames,
    Finding,
    Kind,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
    UnreadObject,
    Wheel,
    WheelLike,
)
from binary_checks.model.python_modules import (
    ExtensionName,
    are_suffixes_known,
    importable_by,
    is_extension,
    parse_extension_name,
)
from binary_checks.wording.phrases import name_first

_LONGEST_TAG = 255  # characters, as in the longest file name
_MOST_TAGS = 12  # in one sentence
_MOST_PLATFORMS = 3  # in one sentence
_REQUIRED = ("Metadata-Version", "Name", "Version")
_UNREAD_BY_INSTALLERS = ("Root-Is-Purelib", "Tag")
"""Without them pip and uv install the wheel, into platlib."""


@check
def metadata_is_incomplete(package: WheelLike) -> Iterator[Finding]:
    """METADATA or WHEEL is missing, or lacks a required field.

    Why: installers refuse such a wheel, or install a package that no tool can list or remove.
    Fix: build the wheel with a build backend, and do not edit the files of .dist-info by hand.
    Level: an installer or an index refuses the wheel. Without ``Tag`` or ``Root-Is-Purelib`` it is
    a warning: pip and uv install it.
    """
    names = {member.archive_name for member in package.members}
    for text, headers, required in (
        ("METADATA", package.metadata, _REQUIRED),
        ("WHEEL", package.wheel, ("Wheel-Version", "Root-Is-Purelib", "Tag")),
    ):
        path = f"{package.dist_info}/{text}"
        if path not in names:
            yield Problem(path=path, sentence=f"there is no {text}")
            continue
        present = {key.lower() for key, value in headers if value}
        for field in required:
            if field.lower() not in present:
                level = Level.WARNING if field in _UNREAD_BY_INSTALLERS else Level.ERROR
                yield Problem(path=path, sentence=f"it has no {field}", level=level)


@check
def name_and_version_disagree(package: WheelLike) -> Iterator[Finding]:
    """The file name, .dist-info folder and METADATA name different projects or versions.

    Why: an installer refuses the wheel, or is asked for one version and records another.
    Fix: never rename a wheel; set the version in one place and build again.
    Level: users cannot install the wheel.
    """
    folder = package.dist_info.removesuffix(".dist-info")
    name, _, version = folder.rpartition("-")
    yield from _compare(package, "the .dist-info folder", package.dist_info, name, version)
    stated = (package.header("Name"), package.header("Version"))
    if all(stated):
        yield from _compare(package, "METADATA", f"{package.dist_info}/METADATA", *stated)


def _compare(
    package: WheelLike, what: str, path: str, name: str, version: str
) -> Iterator[Problem]:
    if canonicalize_name(name) != canonicalize_name(package.name):
        yield Problem(path=path, sentence=f"{what} names {name!r}, the file name {package.name!r}")
    if not same_version(version, package.version):
        yield Problem(
            path=path,
            sentence=f"{what} names version {version!r}, the file name {package.version!r}",
        )


@check(enabled=False)
def unexpected_version(package: Wheel, *, expected: str = "") -> Iterator[Finding]:
    """The version is not the one that the profile expects.

    The option ``expected`` names it; a local label counts, as in ``2.15.0+cpu``.

    Why: a build that took its version from the wrong place is published under the wrong name.
    Fix: build from the tag of the release, with the variables that set the version.
    Level: users get another version than the name says.
    """
    if not expected:
        yield NotInspected(sentence="no version to compare with: the option expected is not set")
    elif not same_version(package.version, expected):
        yield Problem(sentence=f"its version is {package.version}, not {expected} as expected")


@check(level=Level.WARNING)
def tags_disagree(package: Wheel) -> Iterator[Finding]:
    """The tags in WHEEL differ from those in the file name.

    Why: installers select by the file name, and some check WHEEL; one of the two is wrong.
    Fix: let the tool that changes the tags (``auditwheel repair``, ``wheel tags``) rewrite both.
    Level: installers select by the file name alone; only some tools and indexes read WHEEL.
    """
    lines = package.wheel_tags
    if not lines:
        return  # metadata-is-incomplete says so
    stated = {tag for line in lines for tag in _expand(line)}
    named = {str(tag) for tag in package.tags}
    path = f"{package.dist_info}/WHEEL"
    if missing := named - stated:
        yield Problem(
            path=path,
            sentence=f"it lacks {_join(missing)}, which the file name claims;"
            f" it has {_join(stated)}",
        )
    elif extra := stated - named:
        yield Problem(path=path, sentence=f"it claims {_join(extra)}, which the file name does not")


def _expand(line: str) -> Iterator[str]:
    """Spell a compressed set out; a line of another form stands for itself."""
    if len(line) > _LONGEST_TAG:  # a product of three long lists has no end
        yield f"{line[:_LONGEST_TAG]}..."
        return
    try:
        yield from map(str, parse_tag(line))
    except ValueError:
        yield line


def _join(tags: Iterable[str]) -> str:
    few = sorted(tags)
    more = f" and {len(few) - _MOST_TAGS} more" if len(few) > _MOST_TAGS else ""
    return ", ".join(few[:_MOST_TAGS]) + more


@check
def native_code_in_any_wheel(package: WheelLike, code: CodeNames) -> Iterator[Finding]:
    """A wheel for any platform contains an extension module, or a library that others need.

    Executables and helpers that Python never loads are legitimate there. Libraries that only
    each other need, and that the package's own code does not open, are there for a system that
    lacks them (arcade has FFmpeg for macOS): a warning.

    Why: the wheel is installed on systems where its native code cannot run.
    Fix: build it with a platform tag; build backends do so once the extension is declared.
    Level: users of other systems install it and cannot import it.
    """
    if "any" not in package.platforms:
        return
    needed = {name for item in package.objects for name in _list_needs(item)}
    loaded = needed if code.unread else _find_loaded(package, code)
    for item in package.objects:
        what = f"{item.format} for {item.architecture} in a wheel for any platform"
        if is_extension(item):
            yield Problem(path=item.path, sentence=f"an extension module, {what}")
        elif item.kind is Kind.SHARED and {item.name, item.file_name} & loaded:
            yield Problem(path=item.path, sentence=f"a library that the package needs, {what}")
        elif item.kind is Kind.SHARED and {item.name, item.file_name} & needed:
            sentence = f"a library that only others of the package need, {what}"
            yield Problem(path=item.path, sentence=sentence, level=Level.WARNING)
    yield from map(_not_inspected, _unread(package))


def _list_needs(item: ObjectFile) -> set[str]:
    return {need.name.rpartition("/")[2] for need in item.needed}


def _find_loaded(package: Package, code: CodeNames) -> set[str]:
    """The names of what is needed by extension modules, by programs and by what code opens."""
    opened = code.named | code.completed
    waiting = [
        item
        for item in package.objects
        if is_extension(item) or item.kind is Kind.EXECUTABLE or item.path in opened
    ]
    names: set[str] = set()
    for item in waiting:
        found = _list_needs(item) - names
        names |= found
        waiting += [other for other in package.objects if {other.name, other.file_name} & found]
    return names


@check(level=Level.WARNING)
def platform_wheel_without_native_code(package: WheelLike) -> Iterator[Finding]:
    """A wheel for a platform and one Python ABI contains no native code.

    A wheel for any Python (``py3-none-...``) may have a reason, as its metadata may differ by
    platform (watchdog). That is only noted.

    Why: either the build lost the extension modules, and users get a slower package or a broken
    one, or the tag keeps everybody else from installing it.
    Fix: look for an optional extension whose build failed; a pure wheel is tagged ``py3-none-any``.
    Level: what is missing is often optional; import-fails tells where it is not.
    """
    if "any" in package.platforms or package.objects or package.malformed or package.unread:
        return
    platforms = name_first(package.platforms, _MOST_PLATFORMS)
    bound = sorted({tag.abi for tag in package.tags} - {"none"})
    if bound:
        claimed = f"its tags promise extension modules for {', '.join(bound)} on {platforms}"
        yield Problem(sentence=f"it has no native code, but {claimed}")
    else:
        yield Note(sentence=f"it has no native code, although it is for {platforms}")


@check(level=Level.WARNING)
def extension_in_purelib(package: WheelLike) -> Iterator[Finding]:
    """An extension module is installed into purelib.

    Why: where purelib and platlib differ (some Linux systems), it lands in the directory that all
    architectures share; the wheel's own ABI tag contradicts ``Root-Is-Purelib: true``.
    Fix: build with ``Root-Is-Purelib: false``; backends write it once the extension is declared.
    Level: it imports from either directory; only systems that share purelib are affected.
    """
    if all(tag.abi == "none" for tag in package.tags):
        return  # a library wheel (nvidia's): py3-none-<platform>
    places = {member.path: member.archive_name for member in package.members}
    for item in package.objects:
        if is_extension(item) and _is_pure(package, places.get(item.path, item.path)):
            yield Problem(path=item.path, sentence="an extension module that lands in purelib")
    for unread in _unread(package):
        named = parse_extension_name(unread.path) is not None
        if named and _is_pure(package, places.get(unread.path, unread.path)):
            yield _not_inspected(unread)


def _is_pure(package: WheelLike, archive_name: str) -> bool:
    data = package.dist_info.removesuffix(".dist-info") + ".data/"
    if archive_name.startswith(data):
        return archive_name.startswith(f"{data}purelib/")
    return package.root_is_purelib


@check
def foreign_extension_suffix(package: WheelLike) -> Iterator[Finding]:
    """An extension module has a suffix that no interpreter of the wheel's tags imports.

    Why: the module cannot be imported: it is left over from another build, or was built for the
    wrong interpreter.
    Fix: clean the build folder between interpreters; check the build step that names the extension.
    Level: users cannot import the module. A leftover beside the right file is a warning.
    """
    unknown = [name for name in package.platforms if not are_suffixes_known(name)]
    for platform in unknown:
        yield NotInspected(sentence=f"which suffixes a Python on {platform} imports is not known")
    if unknown:
        return
    stems = _find_importable(package)
    for item in package.objects:
        name = parse_extension_name(item.path)
        # torchaudio has .abi3.so that export no PyInit and are mere libraries.
        if item.kind is Kind.SHARED and name and (is_extension(item) or name.version):
            yield from _judge_suffix(package, item.path, name, stems)
    for unread in _unread(package):
        name = parse_extension_name(unread.path)
        if name is not None and name.version:
            yield from _judge_suffix(package, unread.path, name, stems)
        elif name is not None:
            yield _not_inspected(unread)


def _find_importable(package: WheelLike) -> frozenset[str]:
    """The paths, without their suffix, of the modules that every interpreter of the tags has."""
    found = frozenset[str]()
    for number, tag in enumerate(package.tags):
        named = ((item.path, parse_extension_name(item.path)) for item in package.objects)
        names = [(path, name) for path, name in named if name and importable_by(name, tag)]
        stems = frozenset(path.removesuffix(name.suffix) for path, name in names)
        found = found & stems if number else stems
    return found


def _judge_suffix(
    package: WheelLike, path: str, name: ExtensionName, importable: Collection[str]
) -> Iterator[Problem]:
    if not any(importable_by(name, tag) for tag in package.tags):
        sentence = f"no interpreter of {_spell(package.tags)} imports files ending in {name.suffix}"
        left_over = path.removesuffix(name.suffix) in importable
        level = Level.WARNING if left_over else Level.ERROR
        yield Problem(path=path, sentence=sentence, level=level)


def _spell(tags: Iterable[Tag]) -> str:
    """Spell tags with their platforms once, ``cp311-cp311 on manylinux_2_17_x86_64``."""
    tags = tuple(tags)
    interpreters = {f"{tag.interpreter}-{tag.abi}" for tag in tags}
    return f"{_join(interpreters)} on {_join({tag.platform for tag in tags})}"


def _unread(package: WheelLike) -> Iterator[MalformedObject | UnreadObject]:
    yield from package.malformed
    yield from package.unread


def _not_inspected(item: MalformedObject | UnreadObject) -> NotInspected:
    found = could_not_look(item)
    return replace(found, sentence=f"{item.format} not read: {item.reason}")
