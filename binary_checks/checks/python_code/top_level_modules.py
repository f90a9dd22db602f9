"""Whether a distribution has the modules that it promises, under the right names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from binary_checks.declaring import check
from binary_checks.knowledge.failed_imports import describe_absent_module
from binary_checks.knowledge.python_libraries import (
    SHARED_PACKAGES,
    WITH_EMPTY_FILE,
    ModuleFiles,
    is_named_after,
)
from binary_checks.model import (
    Distribution,
    Finding,
    Level,
    NotInspected,
    OwnImports,
    Problem,
    PythonModules,
    find_names,
)
from binary_checks.wording.problem_lines import EDITABLE, OF_NO_FILES
from binary_checks.wording.sentences import name_first

_SOURCE_FOLDER = "src"


@check
def missing_top_level_module(package: Distribution, modules: PythonModules) -> Iterator[Finding]:
    """A distribution installs no module that its name or top_level.txt promises.

    The check reports a distribution that installs nothing but its metadata, ``py.typed`` and texts
    like ``pyproject.toml``; one that installs neither a module of its top_level.txt nor one of its
    own name; and one whose modules lie in ``src``. It is no problem if only some names of
    top_level.txt are missing, or if an extension module of an inner package has that name:
    setuptools lists those, too (pycares, xxhash).

    Why: ``import`` of the installed package ends with a ModuleNotFoundError.
    Fix: tell the build backend where the packages are (``packages``, ``package-dir``), and list the
    wheel's files before every release.
    Level: users cannot import what they installed. A ``src`` next to the right modules is a
    warning. So is a distribution without files that requires others, as a metapackage does (accept
    it with a profile), unless its description imports a module of its name that no requirement is
    named after: ``llama-index-core`` may provide ``llama_index``, ``six`` does not.
    """
    files = package.derive(ModuleFiles)
    own = package.name.replace("-", "_").replace(".", "_")
    if modules.advised is not None:
        yield replace(_judge_empty(package, modules.advised), cause=OF_NO_FILES)
    stated = modules.top_level or ()
    missing = [name for name in stated if not _has(files, name)]
    if files.roots and missing and len(missing) == len(stated) and own not in files.roots:
        is_editable = any("editable" in name for name in files.roots)
        yield Problem(
            path=f"{package.dist_info}/top_level.txt",
            sentence=f"promises the module {name_first(missing)}, which does not exist; "
            f"there is {name_first(sorted(files.roots))}",
            cause=EDITABLE if is_editable else "",
            consequence=is_editable,
        )
    if _SOURCE_FOLDER in files.roots and package.name != _SOURCE_FOLDER:
        yield from _judge_source_folder(files, own)


def _judge_empty(package: Distribution, advised: str) -> Problem:
    names = (each.archive_name for each in package.members if not each.is_directory)
    others = sorted(n for n in names if not n.startswith(f"{package.dist_info}/"))
    what = "nothing that can be imported" if others else "nothing"
    sentence = f"installs {what}: it has no files but {name_first(['its metadata', *others])}"
    always = find_names(package.requires_dist, extras=False)
    if advised and not any(is_named_after(name, package.name) for name in always):
        return Problem(sentence=f"{sentence}, and its description says `{advised}`")
    if package.requires_dist:
        end = f"what it requires can be imported ({name_first(sorted(always))})"
        sentence = f"{sentence}, so only {end if always else 'its extras can be imported'}"
        return Problem(sentence=sentence, level=Level.WARNING)
    return Problem(sentence=sentence)


def _has(files: ModuleFiles, name: str) -> bool:
    if files.has(name.replace("/", ".")) or not name.isidentifier():
        return True
    return any(extension.endswith(f".{name}") for extension in files.extensions)


def _judge_source_folder(files: ModuleFiles, own: str) -> Iterator[Problem]:
    beginning = f"{_SOURCE_FOLDER}."
    below = [n for n in (*files.sources, *files.extensions) if n.startswith(beginning)]
    if not below and _SOURCE_FOLDER not in files.sources:
        return  # headers, or other people's sources
    inner = sorted({n.split(".")[1] for n in below if not n.endswith(".__main__")})
    alone = files.roots == {_SOURCE_FOLDER}
    unimportable = [name for name in inner if name == own or alone]
    end = (
        f"`import {unimportable[0]}` fails"
        if unimportable
        else "it collides with any other project's src"
    )
    yield Problem(
        path=_SOURCE_FOLDER,
        sentence=f"is installed as a package of its own: {end}",
        level=Level.ERROR if unimportable or alone else Level.WARNING,
    )


@check
def shared_namespace_taken(package: Distribution, modules: PythonModules) -> Iterator[Finding]:
    """A package that many distributions share has an ``__init__.py`` that does not share it.

    Shared packages are ``google``, ``azure``, ``sphinxcontrib``, ``zope``, ``ruamel``,
    ``backports``, ``jaraco`` and others. An ``__init__.py`` shares its package if it calls
    ``pkgutil.extend_path`` or ``pkg_resources.declare_namespace``.

    Why: parts of the package that lie in another folder of ``sys.path`` (the system's, the user's,
    an editable install) can no longer be imported, and uninstalling takes the file from others.
    Fix: delete the ``__init__.py``: a namespace package has none (PEP 420).
    Level: other distributions' parts cannot be imported from another folder. It is a warning if the
    file is empty and all distributions of that namespace have such a file, as those of NVIDIA for
    CUDA 11 and 12 have: in one folder they work together.
    """
    files = package.derive(ModuleFiles)
    names = {each.path: each for each in modules.names}
    unparsed = {each.path: each.reason for each in modules.unparsed}
    for shared in sorted(SHARED_PACKAGES):
        path = files.sources.get(shared, "")
        found = names.get(path)
        if path.endswith("/__init__.py") and found is None and path in unparsed:
            yield NotInspected(path=path, sentence=unparsed[path])
        if path.endswith("/__init__.py") and found is not None and not found.extends_path:
            yield Problem(
                path=path,
                sentence=f"takes the package {shared} from all other distributions that have parts "
                "of it",
                level=Level.ERROR
                if found.has_code or shared not in WITH_EMPTY_FILE
                else Level.WARNING,
            )


@check
def missing_own_module(package: Distribution, imports: OwnImports) -> Iterator[Finding]:
    """A module always imports a module of its own package that is not there.

    The source is read, and nothing of it is run. Imports in functions and branches do not count,
    nor those for which an ImportError is caught, nor names below a folder without ``__init__.py``,
    to which other distributions may add modules. If code of the package, an extension module in a
    package around it or a required distribution with a similar name may provide the module, it is
    not inspected.

    Why: the import ends with a ModuleNotFoundError.
    Fix: include the module, most often by adding its folder to the packages that the build backend
    lists; or remove the import.
    Level: an error if a module that users import, or the module of a command, always imports it; a
    warning in another module, unless code of the package imports it in a branch, names it in a text
    or tries an import of it.
    """
    for each in imports.lacking:
        lack = describe_absent_module(each.module, package)
        sentence = f"`import {each.fails}` fails at line {each.line}: {lack}"
        if each.others:
            sentence += f", and it imports {each.others} more that are not"
        if not each.doubt:
            level = Level.ERROR if each.reached else Level.WARNING
            yield Problem(path=each.path, sentence=sentence, level=level, cause=lack)
        elif each.reached:
            yield NotInspected(path=each.path, sentence=f"{sentence}, unless {each.doubt}")
    for source in imports.unread:
        yield NotInspected(path=source.path, sentence=source.reason)


@check(level=Level.WARNING)
def shadowed_module(package: Distribution) -> Iterator[Finding]:
    """A module has the name of a package next to it.

    Files of a folder without ``__init__.py``, which are often run and not imported, do not count,
    nor does a module next to such a folder: Python imports the module.

    Why: ``import`` finds the package, and nothing can import the module.
    Fix: delete the module or the package: one of them is a remnant, or in the wrong place; build
    from an empty folder.
    Level: users may not miss what the module has.
    """
    sources = package.derive(ModuleFiles).sources
    paths = {member.path for member in package.members}
    for name, path in sorted(sources.items()):
        module = f"{path.removesuffix('/__init__.py')}.py"
        around = name.rpartition(".")[0]
        if module in paths and (not around or around in sources):
            yield Problem(
                path=module,
                sentence=f"`import {name}` finds {package.layout.inside(path)} instead",
            )
