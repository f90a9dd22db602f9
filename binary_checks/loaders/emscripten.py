"""How Emscripten's dynamic loader finds and links side modules.

From the loader's JavaScript in Pyodide's packages on npm (``loadDynamicLibrary``,
``loadWebAssemblyModule``, ``findLibraryFS``), and WebAssembly's tool conventions
(DynamicLinking.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from binary_checks.loaders.file_layout import FileLayout
from binary_checks.loaders.image import Image, Lookups, Unresolved
from binary_checks.loaders.loader import (
    Directory,
    Loader,
    SearchPath,
    SearchResult,
)
from binary_checks.model import (
    MistypedFunction,
    Package,
    Rule,
    SymbolTable,
    SystemLibrary,
    TargetSystem,
    UnexploredSymbols,
    UnresolvedSymbol,
    WasmFile,
    normalise,
)

# Finding libraries.

_ORIGIN = "$ORIGIN"
_FIRST_WITH_RUNTIME_PATH = (2025, 0)


class EmscriptenLoader(Loader[WasmFile]):
    """The loader of one ABI, for one layout.

    A needed library is searched for in the runtime path of the module that needs it, then in
    LD_LIBRARY_PATH, which Pyodide sets to ``/usr/lib`` and site-packages. ABI 2024_0 had no runtime
    paths: Pyodide itself loaded the libraries in ``NAME.libs`` next to the package.
    """

    def __init__(
        self,
        package: Package,
        others: tuple[Package, ...],
        target: TargetSystem,
    ) -> None:
        super().__init__(FileLayout(package, others, kind=WasmFile), target)
        self._everywhere = tuple(self._list_directories())

    def _list_directories(self) -> Iterator[Directory]:
        site_packages = self.layout.prefix.site_packages
        yield Directory(directory=site_packages, rule=Rule.ADDED_DIRECTORY)
        if (self.target.minimum_os or _FIRST_WITH_RUNTIME_PATH) < _FIRST_WITH_RUNTIME_PATH:
            folders = {item.directory for item in self.layout.objects}
            for folder in sorted(each for each in folders if each.endswith(".libs")):
                yield Directory(directory=folder, rule=Rule.ADDED_DIRECTORY)

    def begin(self, root: WasmFile) -> SearchPath:
        """Return no directories, because every runtime path belongs to a module."""
        del root
        return self._paths.empty

    def hand_down(self, library: WasmFile, handed: SearchPath) -> SearchPath:
        """Return the directories unchanged: a runtime path is not handed down."""
        del library
        return handed

    def search(self, library: WasmFile, handed: SearchPath) -> SearchPath:
        """Return the module's runtime path, followed by the directories of LD_LIBRARY_PATH."""
        del handed
        own = tuple(
            Directory(directory=_expand(each, library.directory), rule=Rule.RUNPATH)
            for each in library.runtime_path
        )
        return self._paths.make((*own, *self._everywhere))

    def find(self, library: WasmFile, name: str, places: SearchPath) -> SearchResult[WasmFile]:
        """Look for a needed name of a module in these directories."""
        del library
        if name.startswith("/"):
            return SearchResult()
        for place in places.having(name):
            path = normalise(f"{place.directory}/{name}".lstrip("/"))
            folder, _, file_name = path.rpartition("/")
            files = self.layout.find(folder, file_name)
            if files or self.layout.is_unread(folder, file_name):
                return SearchResult(
                    resolved=self.layout.label(files[0].path if files else path),
                    rule=place.rule,
                    searched=places.searched(place),
                    library=files[0] if files else None,
                )
        if name in self.target.libraries:
            return SearchResult(
                resolved=f"system:{name}", rule=Rule.SYSTEM, searched=places.directories
            )
        return SearchResult(searched=places.directories)

    def called(self, name: str) -> str:
        """Return "": a library is known by the path at which it was found, and by no name."""
        del name
        return ""

    def answers_to(self, library: WasmFile, requested: str) -> Iterable[str]:
        """Return nothing: modules state no name."""
        del library, requested
        return ()

    def preloaded(self) -> Mapping[str, str]:
        """Return nothing: the main module is not a library."""
        return {}


def _expand(element: str, directory: str) -> str | None:
    """Return the directory in the prefix; None for one of the runtime's file system.

    Only an element that begins with ``$ORIGIN`` is expanded (``replaceORIGIN``).
    """
    if not element.startswith(_ORIGIN):
        return None
    return normalise(f"{directory or '.'}{element.removeprefix(_ORIGIN)}")


# Linking. The loader gives each module its memory, table and stack. Functions of the main module
# are passed as they are, so the engine compares their types. All other functions are looked up at
# the first call, and called through JavaScript, which has no types. Addresses (GOT.func, GOT.mem)
# are looked up when the module is loaded.

_GIVEN = frozenset(
    {
        *("memory", "__memory_base", "__table_base", "__stack_pointer"),
        *("__indirect_function_table", "__cpp_exception", "__c_longjmp"),
    }
)
"""What the loader gives a side module itself."""
_INVOKE = re.compile(r"invoke_[a-z]+")
_FIRST_WITHOUT_INVOKE = (2025, 0)


def look_up(images: Iterable[Image[WasmFile]], loader: EmscriptenLoader) -> Lookups:
    """Look up every strong import of the package's modules, in every process that loads them."""
    runtime = _Runtime(loader.target)
    unresolved = Unresolved(loader.layout)
    unexplored: dict[str, UnexploredSymbols] = {}
    own: dict[str, frozenset[str]] = {}
    mistyped: list[MistypedFunction] = []
    for image in images:
        missing = next((edge.needed for edge in image.outside if edge.resolved is None), "")
        reason = f"{missing} is not found" if missing else ""
        if image.unread:
            reason = f"{image.unread[0]} could not be read"
        for item in filter(loader.layout.is_own, image.objects):
            if item.path not in own:
                own[item.path] = runtime.find_lacking(item)
                mistyped += runtime.find_mistyped(item)
            left = own[item.path]
            for other in image.objects if left else ():
                left = left - other.exports.among(left)
            if left and reason:
                unexplored[item.path] = UnexploredSymbols(
                    path=item.path, count=len(left), reason=reason
                )
                continue
            for name in sorted(left):
                symbol = UnresolvedSymbol(path=item.path, name=name, root=image.root.path)
                unresolved.add(symbol, item.architecture)
    return Lookups(
        unresolved=unresolved.list_all(),
        unexplored=tuple(unexplored[key] for key in sorted(unexplored)),
        mistyped=tuple(mistyped),
    )


class _Runtime:
    """The names and types of functions of the main module and its JavaScript."""

    def __init__(self, target: TargetSystem) -> None:
        (self._library,) = target.library_data.values() or (_NO_LIBRARY,)
        self._invokes = (target.minimum_os or _FIRST_WITHOUT_INVOKE) < _FIRST_WITHOUT_INVOKE

    def find_lacking(self, item: WasmFile) -> frozenset[str]:
        """Return the strong imports of a module that the runtime does not provide."""
        names = {symbol.name for symbol in item.imports if not symbol.weak}
        lacking = names - _GIVEN - self._library.symbols.keys()
        # A runtime with exceptions by JavaScript makes a function for each type that is called.
        return frozenset(
            name for name in lacking if not (self._invokes and _INVOKE.fullmatch(name))
        )

    def find_mistyped(self, item: WasmFile) -> Iterator[MistypedFunction]:
        """Yield the functions that the main module has with another type."""
        for name, wanted in sorted(_types(item.imports).items()):
            known = self._library.symbols.get(name, _UNTYPED) - _UNTYPED
            if known and wanted not in known:
                (provided,) = known
                yield MistypedFunction(path=item.path, name=name, wanted=wanted, provided=provided)


_NO_LIBRARY = SystemLibrary(soname="", symbols={}, versions=frozenset())
_UNTYPED = frozenset({""})  # the types of a function of JavaScript, or of an address


def _types(symbols: SymbolTable) -> Mapping[str, str]:
    """Return the types of functions; a facts document has none."""
    return getattr(symbols, "signatures", {})
