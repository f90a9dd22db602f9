"""Whether a conda package's dependencies, build string and placeholders are right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.gaps import list_unread, make_gap
from binary_checks.knowledge.library_names import (
    cuda_of_library,
    is_cuda_library,
)
from binary_checks.knowledge.tags import find_minimum, is_of_cuda, name_of, read_version
from binary_checks.model import (
    CondaLike,
    CondaPackage,
    CondaPath,
    Edge,
    ElfFile,
    EmbeddedTestReport,
    Ending,
    Finding,
    Format,
    GivenPackages,
    InstallReport,
    Level,
    Linkage,
    MachOFile,
    Note,
    NotInspected,
    ObjectFile,
    PeFile,
    Problem,
    ReadObject,
)
from binary_checks.safe_text import elide
from binary_checks.wording.problem_lines import name_end
from binary_checks.wording.sentences import describe_end

# Whether a package depends on what its objects need, and on the Python that its files are for.

_GIVEN = "wheel:"  # the beginning of a linkage's names for libraries of other packages
_SITE_PACKAGES = re.compile(r"lib/python(3\.\d{1,3})t?/site-packages\Z")
_PINS = ("python_abi", "_python_abi3_support", "cpython")


@check
def overlinking(
    given: GivenPackages,
    linkage: Linkage,
    package: CondaPackage,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """An object needs a library of a package that is not among the dependencies.

    The packages given with ``--binary-with`` are searched for the library; for packages that were
    installed with this one, see overlinking-in-prefix. ``allowed`` lists names of libraries, or
    globs on them, that may come from elsewhere; ``*`` alone has no effect. Libraries that nothing
    provides are reported by missing-library.

    Why: the library is there only because another dependency requires its package. When that
    dependency no longer does, or requires another version, the object does not load.
    Fix: add the package to the ``host`` requirements, so that its run_exports come into ``run``.
    Level: if no dependency requires the library's package, users do not have the library. If a
    given dependency requires it, this is a warning: users have the library today.
    """
    if not given.packages:
        names = ", ".join(linkage.requirements[:3])
        if not names:
            raise NotApplicable("none of its dependencies has libraries")
        advice = f"give its dependencies with --binary-with ({names})"
        yield NotInspected(
            sentence=f"it is not known which packages the needed libraries belong to: {advice}"
        )
        return
    dependencies, direct = _list_all_dependencies(package, given), direct_names(package)
    for (owner, needed), edges in _group(linkage).items():
        if owner in direct or is_allowed(needed, allowed):
            continue
        required = owner in dependencies
        yield Problem(
            path=edges[0].path,
            sentence=_accuse(edges, owner, required=required),
            facts=(owner, needed),
            level=Level.WARNING if required else Level.ERROR,
        )


@check(level=Level.WARNING)
def overlinking_in_prefix(
    report: InstallReport,
    linkage: Linkage,
    package: CondaPackage,
    *,
    allowed: tuple[str, ...] = (),
) -> Iterator[Finding]:
    """In the prefix, a needed library belongs to a package that is not among the dependencies.

    This is the check overlinking for packages that were installed with this one from its channels.
    ``allowed`` lists names of libraries, or globs on them, that may come from elsewhere; ``*``
    alone has no effect.

    Why: the library is there only because another dependency requires its package. When that
    dependency no longer does, or requires another version, the object does not load.
    Fix: add the package to the ``host`` requirements, so that its run_exports come into ``run``.
    Level: users have the library today.
    """
    if report.error:
        yield NotInspected(sentence=f"it could not be installed: {report.error}")
        return
    owners = {path.rpartition("/")[2]: name for path, name in report.libraries}
    found: dict[tuple[str, str], list[Edge]] = {}
    for edge in linkage.edges:
        name = edge.needed.rpartition("/")[2]
        if edge.resolved is None and (owner := owners.get(name)):
            found.setdefault((owner, name), []).append(edge)
    direct = direct_names(package)
    for (owner, needed), edges in found.items():
        if owner not in direct and not is_allowed(needed, allowed):
            yield Problem(
                path=edges[0].path,
                sentence=_accuse(edges, owner, required=True),
                facts=(owner, needed),
            )


def direct_names(package: CondaPackage) -> frozenset[str]:
    """Return the names of the package itself and of its dependencies."""
    return frozenset({package.name.lower(), *map(name_of, package.depends)})


def is_allowed(name: str, allowed: tuple[str, ...]) -> bool:
    """Whether a profile allows the name; a pattern for every name does not switch the check off."""
    return any(fnmatchcase(name, each) for each in allowed if each.strip("*?"))


def _group(linkage: Linkage) -> dict[tuple[str, str], list[Edge]]:
    """Group the needs that other packages meet, by the package and the needed name."""
    found: dict[tuple[str, str], list[Edge]] = {}
    for edge in linkage.edges:
        if edge.resolved is not None and edge.resolved.startswith(_GIVEN):
            owner = edge.resolved.removeprefix(_GIVEN).partition(":")[0].lower()
            found.setdefault((owner, edge.needed), []).append(edge)
    return found


def _list_all_dependencies(package: CondaPackage, given: GivenPackages) -> frozenset[str]:
    """Return the names of all dependencies: direct ones, and those that given packages require."""
    known = {each.name.lower(): each for each in given.packages}
    queue = sorted(direct_names(package))
    found = set(queue)
    while queue:
        name = queue.pop()
        more = set(map(name_of, known[name].depends)) if name in known else set()
        queue += more - found
        found |= more
    return frozenset(found)


def _accuse(edges: list[Edge], owner: str, *, required: bool) -> str:
    more = f" (as do {len(edges) - 1} more)" if len(edges) > 1 else ""
    sentence = f"needs {edges[0].needed}{more} of {owner}, which is not among the dependencies"
    return f"{sentence}: another dependency requires it today" if required else sentence


@check
def unpinned_python(package: CondaPackage) -> Iterator[Finding]:
    """The package's files are for one Python, but the solver may choose another.

    Only Python 3.11 finds files in ``lib/python3.11/site-packages``. On Windows all Pythons look in
    ``Lib/site-packages``: there only compiled modules are for a single Python.

    Why: the solver installs the package together with another Python, which does not find the
    module.
    Fix: build with ``python`` among the ``host`` requirements, whose run_exports pin it, or build
    the package as ``noarch: python``.
    Level: users of another Python cannot import it.
    """
    if package.name == "python":
        raise NotApplicable("the package is Python itself")
    match = _SITE_PACKAGES.match(package.layout.site_packages)
    inside = any(package.layout.inside(member.path) for member in package.members)
    if package.noarch or match is None or not inside:
        raise NotApplicable("none of its files is for only one Python")
    names = {name_of(each) for each in package.depends}
    bound = [claim for claim in package.claims.pythons if claim.version and claim.abi]
    if bound or names & set(_PINS):
        return
    specs = [each for each in package.depends if name_of(each) == "python"]
    reason = f"{specs[0]!r} allows others" if specs else "no requirement excludes other Pythons"
    yield Problem(sentence=f"its files are for Python {match[1]}, and {reason}")


# Whether the metadata asks for the system that the package's code needs.

_OLDEST_GLIBC = (2, 17)  # conda's own programs need it
_OLDEST_MACOS = {"osx-64": (10, 13), "osx-arm64": (11, 0)}
_GLIBC = re.compile(r"GLIBC_(\d{1,4})\.(\d{1,4})(?:\.\d+)?")


@check
def missing_virtual_package(package: CondaLike) -> Iterator[Finding]:
    """The code needs a newer glibc or macOS than some users have, and the metadata does not say so.

    Every system that conda itself runs on has glibc 2.17, macOS 10.13 on Intel or macOS 11 on Apple
    silicon; code that runs there needs no virtual package. If the metadata states a version that is
    too old, version-newer-than-tag and minimum-os-above-tag report it.

    Why: the solver installs the package on any system; on an older one the import ends with
    "version `GLIBC_2.34' not found" or "Symbol not found".
    Fix: add ``__glibc >=2.34`` or ``__osx >=12.0`` to the run requirements, or build against an
    older ``sysroot`` or SDK.
    Level: users of older systems install a package that does not load. For macOS it is a warning:
    dyld loads the file, and fails only at a missing symbol.
    """
    named = {name_of(each) for each in (*package.depends, *package.constrains)}
    for_linux, oldest = package.subdir.startswith("linux-"), _OLDEST_MACOS.get(package.subdir)
    if not for_linux and oldest is None:
        raise NotApplicable("it is for neither Linux nor macOS")
    wanted, virtual = (Format.ELF, "__glibc") if for_linux else (Format.MACHO, "__osx")
    if virtual in named:
        raise NotApplicable(f"its metadata states {'a' if for_linux else 'an'} {virtual}")
    yield from (make_gap(each) for each in list_unread(package) if each.format == wanted)
    if oldest is None:
        yield from _find_newest_glibc(package)
    else:
        yield from _find_newest_macos(package, oldest)


def _find_newest_glibc(package: CondaLike) -> Iterator[Problem]:
    needs = [
        ((int(match[1]), int(match[2])), item.path)
        for item in package.objects_of(ElfFile)
        for need in item.symbol_versions
        if not need.weak and (match := _GLIBC.fullmatch(need.version))
    ]
    newest, path = max(needs, default=(_OLDEST_GLIBC, ""))
    if newest > _OLDEST_GLIBC:
        version = "{}.{}".format(*newest)
        sentence = f"needs GLIBC_{version}, but no requirement says __glibc >={version}"
        yield Problem(path=path, sentence=f"{sentence}: it installs on older systems")


def _find_newest_macos(package: CondaLike, oldest: tuple[int, int]) -> Iterator[Problem]:
    built = [
        (read_version(item.minimum_os), item.path)
        for item in package.objects_of(MachOFile)
        if item.minimum_os
    ]
    newest, path = max(built, default=(oldest, ""))
    if newest > oldest:
        version = "{}.{}".format(*newest)
        sentence = f"is built for macOS {version}, but no requirement says __osx >={version}"
        yield Problem(path=path, sentence=sentence, level=Level.WARNING)


@check
def understated_driver(package: CondaLike, linkage: Linkage | CondaLike) -> Iterator[Finding]:
    """A CUDA package requires an older driver than its CUDA needs, or no driver at all.

    ``__cuda`` is the newest CUDA that the user's driver supports. ``cuda-version`` and the packages
    of the toolkit require it themselves.

    Why: the solver installs the package for a driver that cannot run it: "CUDA driver version is
    insufficient for CUDA runtime version".
    Fix: build with ``cuda-version``, whose run requirement states ``__cuda``, or state it yourself.
    Level: with an older driver, nothing of it runs on the GPU. If no driver is required at all it
    is a warning: most users of such a package have one.
    """
    needed = _find_cuda(linkage)
    code = [
        item.path
        for item in package.objects
        if isinstance(item, ElfFile | PeFile)
        and any(code.architecture.startswith("sm_") for code in item.device_code)
    ]
    if not needed and not code:
        raise NotApplicable("nothing in it is for CUDA")
    stated = find_minimum("__cuda", (*package.depends, *package.constrains))
    newest = max((major for major, _ in needed), default=0)
    if stated is not None:
        if newest > stated[0]:
            name = next(name for major, name in needed if major == newest)
            sentence = "needs {}, of CUDA {}, and __cuda >={}.{} allows an older driver"
            yield Problem(sentence=sentence.format(name, newest, *stated), facts=(name,))
        return
    if not any(map(is_of_cuda, package.depends)):
        what = f"needs {needed[0][1]}" if needed else "has code for GPUs"
        sentence = f"{what}, and no dependency asks for a driver (__cuda, cuda-version)"
        path = next(iter(code), "")
        yield Problem(path=path, sentence=sentence, level=Level.WARNING)


def _find_cuda(linkage: Linkage | CondaLike) -> list[tuple[int, str]]:
    """Return the needed libraries of CUDA with the major version of each, 0 if unknown."""
    if not isinstance(linkage, Linkage):
        return []
    names = dict.fromkeys(edge.needed for edge in linkage.edges if is_cuda_library(edge.needed))
    return [(cuda_of_library(name) or 0, name) for name in names]


# Whether a package for every platform has objects for one.

_SPELLED = {Format.ELF: "an ELF object", Format.MACHO: "a Mach-O object", Format.PE: "a PE object"}


@check
def objects_in_noarch(package: CondaLike) -> Iterator[Finding]:
    """A package for every platform contains an object for one platform.

    Launchers for Windows (``.exe``), which setuptools and pip ship for all platforms, are only
    noted.

    Why: conda installs it everywhere; on all other systems and architectures the file does not
    load.
    Fix: leave ``noarch`` out of the recipe.
    Level: users of other platforms cannot load the library. A program or plugin that nothing loads
    as part of Python is a warning.
    """
    if not package.noarch:
        raise NotApplicable("it is for one platform")
    found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
    for item in found:
        if item.format not in _SPELLED:
            continue
        of = f" for {item.architecture}" if isinstance(item, ObjectFile) else ""
        sentence = f"is {_SPELLED[item.format]}{of}, but the package is for every platform"
        if item.path.endswith(".exe"):
            yield Note(path=item.path, sentence=sentence)
        else:
            loaded = item.path.endswith((".so", ".pyd", ".dylib")) or ".so." in item.path
            level = Level.ERROR if loaded else Level.WARNING
            yield Problem(path=item.path, sentence=sentence, level=level)


# Whether an installer can replace the build prefix in every file that contains it.

_USUAL = 255  # characters of the prefix to which conda-build and rattler-build pad
_SHORTEST = 80  # characters to which conda-build 1 padded


@check
def short_placeholder(package: CondaPackage) -> Iterator[Finding]:
    """A placeholder in a binary file is too short for the prefixes of users.

    The placeholder is the prefix of the build, which conda-build and rattler-build pad to 255
    characters. In text files, which may grow, its length does not matter.

    Why: a binary file cannot grow: if the user's prefix is longer than the placeholder, the
    installer stops ("placeholder of length '80' too short").
    Fix: build with ``prefix_length: 255`` (conda-build's default), in a folder whose path is short.
    Level: below 80 characters, usual prefixes do not fit and users cannot install the package; from
    80 on it is a warning, as most fit.
    """
    for row in _require_rows(package):
        length = len(row.placeholder.encode())
        if row.mode == "binary" and length < _USUAL:
            sentence = (
                f"its placeholder has {length} bytes: the package does not install into a longer "
                "prefix"
            )
            level = Level.ERROR if length < _SHORTEST else Level.WARNING
            yield Problem(path=row.path, sentence=sentence, level=level)


@check
def placeholder_without_room(package: CondaPackage) -> Iterator[Finding]:
    """A placeholder in a binary file does not begin a text that ends with NUL.

    Installers replace it by the prefix and fill the rest of the text up with NUL. Data that state
    the lengths of their texts (pickles, archives, databases) have no NUL at the end.

    Why: conda leaves such a placeholder unchanged, so its path leads nowhere; other installers move
    the bytes after it, which damages the file.
    Fix: leave the path out of the data, or make it relative; list the file in
    ``ignore_prefix_files`` if nothing opens the path.
    Level: users get a damaged file, or one that names a folder of the build machine.
    """
    found = {(each.path, each.prefix): each for each in package.build_paths}
    for row in _require_rows(package):
        hit = found.get((row.path, row.placeholder))
        if row.mode == "binary" and hit is not None and hit.cramped:
            places = f"{hit.cramped} of {hit.count} occurrences of {elide(hit.text)} do"
            if hit.count == 1:
                places = f"the only occurrence of {elide(hit.text)} does"
            sentence = f"{places} not end in NUL: no prefix can be put there"
            yield Problem(path=row.path, sentence=sentence)


@check
def text_placeholder_in_binary(package: CondaPackage) -> Iterator[Finding]:
    """``paths.json`` declares that a binary file with a placeholder is text.

    Why: a text grows or shrinks with the prefix, and every offset in the file is then wrong: an
    object does not load.
    Fix: let the build tool find the mode (conda-build: ``binary_has_prefix_files``).
    Level: users cannot load the object. For other binary data it is a warning.
    """
    found: tuple[ReadObject, ...] = (*package.objects, *package.malformed, *package.unread)
    objects = {item.path for item in found if item.format != Format.ARCHIVE}
    binary = {each.path for each in package.build_paths if each.binary}
    for row in _require_rows(package):
        if row.mode == "text" and row.path in objects | binary:
            sentence = "paths.json says that it is text: replacing the prefix damages it"
            level = Level.ERROR if row.path in objects else Level.WARNING
            yield Problem(path=row.path, sentence=sentence, level=level)


@check
def unlisted_placeholder(package: CondaPackage) -> Iterator[Finding]:
    """A file contains the prefix of the build, and ``paths.json`` does not list it.

    Bytecode does not count, as nothing opens the paths in it; nor do binary files on Windows, which
    build tools do not list there.

    Why: the path stays as it is and leads nowhere on users' systems: scripts do not start, builds
    against the package do not find it, programs do not find their data.
    Fix: build with ``detect_binary_files_with_prefix: true`` (conda-build), or have the code find
    its prefix when it runs.
    Level: a script whose interpreter (``#!``) lies below that prefix does not start. Elsewhere it
    is a warning: whether anything opens the path is not known.
    """
    rows = {(row.path, row.placeholder) for row in package.rows}
    windows = package.subdir.startswith("win-")
    for each in package.build_paths:
        if not each.prefix or (each.path, each.prefix) in rows or (windows and each.binary):
            continue
        what = f"has {each.count} paths as" if each.count > 1 else "has the path"
        what = "its interpreter is" if each.shebang else what
        unlisted = "which paths.json does not list: no installer replaces it"
        sentence = f"{what} {elide(each.text)}, {unlisted}"
        level = Level.ERROR if each.shebang else Level.WARNING
        yield Problem(path=each.path, sentence=sentence, level=level)


def _require_rows(package: CondaPackage) -> tuple[CondaPath, ...]:
    if not package.rows:
        raise NotApplicable("no file of it has a placeholder")
    return package.rows


# Whether the tests that a package carries pass in a clean prefix.

_OFFLINE = re.compile(
    r"(?i)name or service not known|temporary failure in name resolution|network is unreachable|"
    r"could not resolve host|getaddrinfo failed|gaierror|max retries exceeded|no route to host"
)


@check
def embedded_test_fails(report: EmbeddedTestReport) -> Iterator[Finding]:
    """A test that the package carries fails where it is installed.

    conda-build puts the ``test`` section of a recipe into ``info/test``, rattler-build into
    ``info/tests``. Its scripts in Python and in the shell run in the sandbox, each in an empty
    folder, with the packages that the tests require. A test that fails because there is no network
    is not inspected.

    Why: the project itself says that this must work; conda's tools ran the test in the environment
    of the build, which has more packages than users have.
    Fix: see the last line of the test's output, and run it in a fresh environment (``conda build
    --test PACKAGE``, ``rattler-build test --package-file PACKAGE``).
    Level: users cannot use what the project itself tests.
    """
    for name, reason in report.untried:
        yield NotInspected(sentence=f"{name}: {reason}")
    for run in report.runs:
        step = run.step
        if step.outcome is Ending.OK:
            continue
        if _OFFLINE.search(f"{step.detail}\n{step.stderr}"):
            yield NotInspected(sentence=f"{step.name} needs the network: {step.detail}")
            continue
        done = " is done, but its process then" if step.finished else ""
        yield Problem(
            sentence=f"{step.name}{done} {describe_end(step)}", facts=(step.name, name_end(step))
        )
