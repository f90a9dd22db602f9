"""Names that a package's modules bind, and the own modules that they import."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib.util import resolve_name
from itertools import chain

from packaging.utils import canonicalize_name

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.gather.member_contents import MemberContents
from binary_checks.knowledge.python_libraries import (
    SHARED_PACKAGES,
    ModuleFiles,
    is_for_tests,
    is_named_after,
    name_module,
)
from binary_checks.model import (
    ANY_SYSTEM,
    ContentRequest,
    Distribution,
    EntryPoint,
    LackingImport,
    ModuleNames,
    OwnImports,
    PythonModules,
    TreeEntry,
    UnparsedSource,
    find_names,
    read_entry_points,
)
from binary_checks.python_code.parsing import (
    LONGEST,
    FaultyError,
    LeftAloneError,
    parse,
    read_names,
    tabulate,
)

_TOP_LEVEL = "top_level.txt"
_NOTHING = r"(?:.*/)?py\.typed|pyproject\.toml|setup\.cfg|(?:README|LICEN[CS]E|CHANGELOG)[^/]*"
"""Files that make no wheel more than empty: langroid 0.33.3 has two of them and no module."""
_REFERENCE = re.compile(r"\s*([\w.]{1,250})\s*(?::\s*(\w{1,250}))?")


def _is_wanted(entry: TreeEntry) -> bool:
    return entry.name.endswith((".py", f".dist-info/{_TOP_LEVEL}"))


MODULES = ContentRequest(chooses=_is_wanted, longest=LONGEST)
"""Modules requested before the package is read: each may import any other."""


@gathers(PythonModules, wants=(MODULES,))
def read_modules(package: Distribution, contents: MemberContents) -> PythonModules:
    """Read the modules that entry points and namespaces refer to. Raises PackageError."""
    return _ModuleReader(package, contents).read()


class _ModuleReader:
    """A reader of the few files whose names matter, and of the modules that they star-import."""

    def __init__(self, package: Distribution, contents: MemberContents) -> None:
        self._package = package
        self._contents = contents
        self._files = package.derive(ModuleFiles)
        self._members = {member.path: member for member in package.members}
        self._asked: dict[str, set[str]] = {}
        for path, name in self._list_asked():
            self._asked.setdefault(path, set()).add(name)
        self._starred: dict[str, ModuleNames | None] = {}

    def read(self) -> PythonModules:
        """Read all modules that entry points and namespaces refer to."""
        sources = self._files.sources
        # Other distributions add modules to these packages.
        shared = (sources.get(name, "") for name in SHARED_PACKAGES)
        chosen = {path for path in shared if path.endswith("/__init__.py")} | self._asked.keys()
        members = (
            self._members[path]
            for name, path in sources.items()
            if path in chosen and not is_for_tests(name.split("."))  # users do not import tests
        )
        names: list[ModuleNames] = []
        unparsed: list[UnparsedSource] = []
        for member, content in self._contents.each(members):
            try:
                if isinstance(content, Unavailable):
                    raise content
                names.append(self._read_names(member.path, content))
            except FaultyError:  # the probe that compiles files reports this error
                pass
            except (LeftAloneError, Unavailable) as error:
                unparsed.append(UnparsedSource(path=member.path, reason=str(error)))
        return PythonModules(
            names=tuple(sorted(names, key=lambda each: each.path)),
            unparsed=tuple(sorted(unparsed, key=lambda each: each.path)),
            top_level=self._read_top_level(),
            advised=self._find_advice(),
        )

    def _read_names(self, path: str, content: bytes) -> ModuleNames:
        """Read the names of a module, and those asked names that it star-imports."""
        names, asked = read_names(path, tabulate(content)), self._asked.get(path, set())
        # numpy binds the names of its entry points itself, but star-imports thirty modules.
        if asked <= names.bound:
            return names
        bound, opaque, left = set(names.bound), names.opaque, list[str]()
        seen, waiting = {path}, deque([names])
        while waiting:
            current = waiting.popleft()
            for star in current.stars:
                target = self._find_star(current.path, star)
                taken = self._read_star(target) if target else None
                if taken is None:
                    left.append(star)
                elif taken.path not in seen:
                    seen.add(taken.path)
                    bound |= asked & taken.bound
                    opaque = opaque or taken.opaque
                    waiting.append(taken)
        return replace(names, bound=frozenset(bound), opaque=opaque, stars=tuple(left))

    def _find_star(self, path: str, star: str) -> str:
        """Return the file of a module that another one star-imports, or ""."""
        module = name_module(self._package.layout.inside(path) or "")
        package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
        with suppress(ImportError):  # a relative import that leads out of the outermost package
            return self._files.sources.get(resolve_name(star, package), "")
        return ""

    def _read_star(self, path: str) -> ModuleNames | None:
        if path not in self._starred:
            self._starred[path] = None
            with suppress(LeftAloneError, Unavailable):
                table = tabulate(self._contents.read(self._members[path]))
                self._starred[path] = read_names(path, table)
        return self._starred[path]

    def _list_asked(self) -> Iterator[tuple[str, str]]:
        """Yield the files of modules that entry points name, with the name that each must bind.

        If a module is missing, yield all packages around it: they may extend the search path.
        """
        for _, _, value in self._package.entry_points:
            match = _REFERENCE.match(value)
            name = match[1] if match else ""
            if name in self._files.sources and ":" in value:
                yield self._files.sources[name], (match and match[2]) or ""
            elif not self._files.has(name):
                parts = name.split(".")
                around = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
                yield from ((self._files.sources.get(each, ""), "") for each in around)

    def _read_top_level(self) -> tuple[str, ...] | None:
        content = self._read_text(_TOP_LEVEL)
        return None if content is None else tuple(dict.fromkeys(content.split()))

    def _find_advice(self) -> str | None:
        """Return the line of METADATA that imports a module of an empty package's name, or ""."""
        own = rf"{re.escape(self._package.dist_info)}/.*|{_NOTHING}"
        files = (each for each in self._package.members if not each.is_directory)
        if not all(re.fullmatch(own, each.archive_name) for each in files):
            return None
        name = re.sub(r"\W", "_", self._package.name)
        plain = rf"import[ \t]+{name}(?=[ \t]*\r?$|[ \t]+as\b|[.,;#])"
        pattern = rf"^[ \t>]*({plain}|from[ \t]+{name}[\w.]*[ \t]+import\b)"
        found = re.search(pattern, self._read_text("METADATA") or "", re.IGNORECASE | re.MULTILINE)
        return found[1] if found else ""

    def _read_text(self, name: str) -> str | None:
        """Return a file of the .dist-info folder; None if it is missing or cannot be read."""
        path = f"{self._package.dist_info}/{name}"
        found = [each for each in self._package.members if each.archive_name == path]
        with suppress(Unavailable):
            return self._contents.read(found[-1]).decode(errors="replace") if found else None
        return None


# Own modules that the package imports and does not have.

_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?=[\w.])(\.*)(|\w[\w.]*)[ \t]*\bimport\b([ \t]*\([^)]*|[^\n]*)"
    rb"|import[ \t]+(\w[\w. \t,]*))",
    re.MULTILINE,
)
"""Most imports. Sources are parsed only if one of these may name a module that is not there."""
_SINCE: dict[type[ast.AST], tuple[int, str]] = {
    ast.JoinedStr: (6, "an f-string"),
    ast.AnnAssign: (6, "an annotated name"),
    ast.NamedExpr: (8, "`:=`"),
    ast.Match: (10, "`match`"),
}
"""Syntax by the minor version of Python that brought it."""
_TRIED = re.compile(rb"^([ \t]*)try:[^\n]*\n((?:\1[ \t]+[^\n]*\n|[ \t\r]*\n)+)", re.MULTILINE)
"""What a ``try`` contains. Its failure may be foreseen, as of insightface's mask_renderer."""
_NAMED = re.compile(rb"(?:\A|[(,])\s*(\w+)")
_BINDS_ANY = re.compile(
    rb"\bimport[ \t]+\*|__getattr__|globals\(\)|locals\(\)|vars\(\)|sys\.modules|\bexec\("
    rb"|\bsetattr\(|__dict__|__path__"
)
"""Code with which a module may bind any name."""
_BINDS_NOTHING = re.compile(
    rb"^[ \t]*from[ \t]+\.[ \t]*import\b(?:[ \t]*\((?:(?!\bas\b)[^)])*|(?:(?!\bas\b)[^\n(])*)"
    rb"|['\"]\w+['\"]",
    re.MULTILINE,
)
"""A package's import from itself up to the first ``as``, and words like those in ``__all__``."""
_CHOSEN = re.compile(rb"(?m)^[ \t]+(?:from|import)\b([^\n]*)|(['\"]|\b\w+)\.(\w+)['\"]")
"""Imports in branches, and names of modules in texts: ``".core"`` or ``"demo.core"``."""
_MAKES = re.compile(
    rb"\bmeta_path\b|\bpath_hooks\b|\bextend_path\b|\bdeclare_namespace\b"
    rb"|__path__\s*(?:\+?=(?!=)|\.(?:append|insert|extend)\b|\[)|\w\(\s*__name__\s*,"
    rb"|sys\.modules(?:\.(?:setdefault|update)\(|\[(?!\s*__name__\s*\])[^\]\n]{1,200}\]\s*=(?!=))"
)
"""Code that may make modules or find them elsewhere: six.py makes six.moves, and others call
``VendorImporter(__name__, names).install()``.
"""
_MAKERS_WORDS = tuple(
    b"meta_path path_hooks extend_path declare_namespace __path__ __name__ sys.modules".split()
)
"""One of these is in all such code."""


@gathers(OwnImports)
def find_lacking_imports(package: Distribution, contents: MemberContents) -> OwnImports:
    """Find imports that always run and whose module the package should have, but has not.

    Raises PackageError, and NotApplicable for a package without Python sources.
    """
    if not package.derive(ModuleFiles).sources:
        raise NotApplicable("it contains no Python source")
    reader = _ImportReader(package, contents)
    lacking = tuple(reader.find())
    is_anywhere = ANY_SYSTEM in {each.name for each in package.claims.systems}
    is_asked = is_anywhere and not package.header("Requires-Python")
    newest = reader.find_newest() if is_asked else None
    unread = (UnparsedSource(path=path, reason=why) for path, why in reader.unread.items())
    return OwnImports(lacking=lacking, unread=tuple(unread), newest=newest)


class _ImportReader:
    """A reader of all modules of a package except tests."""

    def __init__(self, package: Distribution, contents: MemberContents) -> None:
        self._package, self._contents = package, contents
        self._files = package.derive(ModuleFiles)
        self._modules = {
            path: name
            for name, path in self._files.sources.items()
            # an extension module takes precedence over a source: backports.zstd._zstd
            if not (name in self._files.extensions or is_for_tests(name.split(".")))
        }
        self._members = {
            self._modules[each.path]: each for each in package.members if each.path in self._modules
        }
        self._imported: dict[str, tuple[tuple[int, str, bool], ...]] = {}
        self._words: dict[str, frozenset[bytes] | None] = {}
        self.unread: dict[str, str] = {}

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The names that users import. Raises NotApplicable if there are none."""
        from binary_checks.probes.importable import find_import_names

        return find_import_names(self._package, (".so", ".pyd"))

    def find(self) -> Iterator[LackingImport]:
        """Yield one import of each module that imports absent ones, unless another one has them."""
        suspects = [module for module, content in self._each() if self._is_suspect(module, content)]
        listed = {module: list(self._list_lacks(module)) for module in suspects}
        targets = [module for module, found in listed.items() if found]
        if not targets:
            return
        leading = self._find_leading(targets)
        reached = self._follow(self.roots, leading)
        # nobody imports a private module that no code names: zmq.eventloop._deprecated
        targets = [each for each in targets if each in reached or "._" not in each]
        if not targets:
            return
        surroundings = _Surroundings(self._package, self._files, self._each())
        named = (self._name_imported(module, block) for module, block in surroundings.tried)
        bases = (base for base, _ in chain.from_iterable(named))
        tried = self._follow(bases, leading)
        found = set[str]()
        for module in sorted(targets, key=lambda each: (each not in reached, each)):
            absent = {lack: line for line, lack in reversed(listed[module]) if lack not in found}
            found.update(absent)
            is_foreseen = module in tried or surroundings.is_chosen(module)
            if not absent or (is_foreseen and module not in reached):
                continue
            doubts = {lack: surroundings.find_doubt(lack) for lack in absent}
            lack = min(absent, key=lambda each: (doubts[each], absent[each], each))
            yield LackingImport(
                path=self._members[module].path,
                line=absent[lack],
                module=lack,
                others=len(absent) - 1,
                fails=reached.get(module, module),
                reached=module in reached,
                doubt=doubts[lack],
            )

    def _each(self) -> Iterator[tuple[str, bytes]]:
        for member, content in self._contents.each(self._members.values()):
            if isinstance(content, Unavailable):
                self.unread[member.path] = str(content)
            else:
                yield self._modules[member.path], content

    def _is_suspect(self, module: str, content: bytes) -> bool:
        """Return whether an import may name a module that is not there."""
        return any(
            self._find_lack(f"{base}.{name}" if name else base)
            for base, name in self._name_imported(module, content)
            if not name or not self._may_bind(base, name)
        )

    def _is_package(self, module: str) -> bool:
        return module in self._members and self._members[module].path.endswith("/__init__.py")

    def _may_bind(self, module: str, name: str) -> bool:
        """Return whether a package's own source has a name; plain modules are not looked into."""
        if not self._is_package(module):
            return True
        if module not in self._words:
            self._words[module] = None
            with suppress(Unavailable):
                content = self._contents.read(self._members[module])
                if not _BINDS_ANY.search(content):
                    words = re.findall(rb"\w+", _BINDS_NOTHING.sub(b"", content))
                    self._words[module] = frozenset(words)
        bound = self._words[module]
        return bound is None or name.encode() in bound

    def _list_lacks(self, module: str) -> Iterator[tuple[int, str]]:
        """Yield the imports that always run and cannot succeed, each with its line."""
        for line, name, is_module in sorted(self._list_imports(module)):
            base, _, last = name.rpartition(".")
            if is_module or not (last == "*" or self._may_bind(base, last)):
                lack = self._find_lack(name)
                if lack and not is_for_tests(lack.split(".")):
                    yield line, lack

    def _name_imported(self, module: str, content: bytes) -> Iterator[tuple[str, str]]:
        """Yield modules, and for ``from a import b`` also ``a`` with ``b``."""
        from binary_checks.probes.compile_modules.script import resolve

        for dots, origin, names, plain in _IMPORT.findall(content):
            base = resolve(len(dots), origin.decode(), module, self._is_package(module))
            yield base, ""
            yield from ((base, each.decode()) for each in _NAMED.findall(names))
            yield from ((each, "") for each in re.findall(r"(?:\A|,)\s*([\w.]+)", plain.decode()))

    def _find_leading(self, targets: Iterable[str]) -> set[str]:
        """Return the modules whose import may import a target: only these need to be followed."""
        from binary_checks.probes.compile_modules.script import list_with_parents

        waiting = [*targets]
        importers: dict[str, set[str]] = {}
        for module, content in self._each():
            for base, name in [(module, ""), *self._name_imported(module, content)]:
                for each in list_with_parents(f"{base}.{name}" if name else base):
                    importers.setdefault(each, set()).add(module)
        leading = set[str]()
        while waiting:
            module = waiting.pop()
            if module not in leading:
                leading.add(module)
                waiting += importers.get(module, ())
        return leading

    def _find_lack(self, name: str) -> str:
        """Return the outermost module of a name that is missing in an own package, or ""."""
        from binary_checks.probes.compile_modules.script import list_with_parents

        nearest = ""
        for each in list_with_parents(name):
            if not self._files.has(each):
                return each if nearest in self._files.sources else ""
            nearest = each
        return ""

    def find_newest(self) -> tuple[int, str, int, str] | None:
        """Return the newest syntax of modules that are always imported with `roots`."""
        found = (
            (*_SINCE[type(node)], getattr(node, "lineno", 0), self._members[module].path)
            for module in self._follow(self.roots)
            for node in ast.walk(self._parse(module))
            if type(node) in _SINCE
        )
        return max(found, key=lambda each: each[0], default=None)

    def _list_imports(self, module: str) -> tuple[tuple[int, str, bool], ...]:
        from binary_checks.probes.compile_modules.script import list_imports

        if module not in self._imported:
            found = list_imports(self._parse(module).body, module, self._is_package(module))
            self._imported[module] = tuple(found)
        return self._imported[module]

    def _parse(self, module: str) -> ast.Module:
        member = self._members[module]
        try:
            return parse(self._contents.read(member))
        except FaultyError:  # the probe that compiles files reports this error
            pass
        except (LeftAloneError, Unavailable) as error:
            self.unread[member.path] = str(error)
        return ast.Module(body=[], type_ignores=[])

    def _follow(
        self, roots: Iterable[str], leading: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the modules that are always imported, each with the first that users import.

        With ``leading``, only these modules are followed.
        """
        from binary_checks.probes.compile_modules.script import list_with_parents

        points = (each for each in read_entry_points(self._package) if isinstance(each, EntryPoint))
        commands = sorted(each.module for each in points if each.is_always_loaded)
        reached: dict[str, str] = {}
        for root in (*roots, *commands):
            waiting = deque([root])
            while waiting:
                for module in list_with_parents(waiting.popleft()):
                    is_followed = module in (self._members if leading is None else leading)
                    if is_followed and module not in reached:
                        reached[module] = root
                        waiting.extend(name for _, name, _ in self._list_imports(module))
        return reached


class _Surroundings:
    """What may provide an absent module, or keep its import from running: one look at all sources.

    Only a package with an absent module is looked at.
    """

    def __init__(
        self, package: Distribution, files: ModuleFiles, sources: Iterable[tuple[str, bytes]]
    ) -> None:
        self._package, self._files = package, files
        self.tried: list[tuple[str, bytes]] = []  # modules with the text in their ``try``
        # what makes modules, by the package around them or by a word of the source
        self._makers: dict[str | bytes, str] = {}
        for extension in sorted(files.extensions):
            # fastwarc._fastwarc makes the modules fastwarc.warc and fastwarc.stream_io
            around = extension.rpartition(".")[0]
            self._makers.setdefault(around, f"the extension module {extension}")
        self._imported = set[bytes]()  # words of imports in branches
        self._texts = set[tuple[bytes, bytes]]()  # (b"demo", b"core") for "demo.core"
        for module, content in sources:
            self.tried += ((module, block) for _, block in _TRIED.findall(content))
            for line, parent, name in _CHOSEN.findall(content):
                self._imported.update(re.findall(rb"\w+", line))
                self._texts.add((parent.strip(b"'\""), name))
            # the words are found at ten times the speed of the expression
            if any(each in content for each in _MAKERS_WORDS) and _MAKES.search(content):
                keys = (module, *re.findall(rb"\w+", content))
                self._makers.update(dict.fromkeys(keys, module))
        self._files_by_name: dict[str, str] = {}
        for member in package.members:
            path = package.layout.inside(member.path) or ""
            if "." in path and not path.endswith(".pyi"):
                self._files_by_name.setdefault(path.partition(".")[0], path)

    def is_chosen(self, module: str) -> bool:
        """Return whether a source imports just this module in a branch, or names it in a text.

        A mere word, such as rikai's ``"schema"``, is no name of the module rikai.spark.sql.schema.
        """
        around, _, last = module.encode().rpartition(b".")
        named = {(b"", last), (around.rpartition(b".")[2], last)}
        return bool(around) and (last in self._imported or bool(named & self._texts))

    def find_doubt(self, lack: str) -> str:
        """Return what may provide a module nevertheless, or ""."""
        from binary_checks.probes.compile_modules.script import list_with_parents

        around, last = list_with_parents(lack)[:-1], lack.rpartition(".")[2].encode()
        outer = next(each for each in around if each in self._files.sources)
        if path := self._files_by_name.get(lack.replace(".", "/"), ""):
            return f"code loads {path}"
        for key in (*around, last, ""):
            if key in self._makers:
                return f"{self._makers[key]} makes it"
        names = find_names(self._package.requires_dist) - {canonicalize_name(self._package.name)}
        near = next((each for each in sorted(names) if is_named_after(each, outer)), "")
        return f"the required {near} has it" if near else ""
