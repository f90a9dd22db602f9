"""Finds what Python code has loaded before the objects of a package, where that may matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing

from binary_checks.errors import BrokenDataError, PackageError
from binary_checks.gather.own_code import find_entry, read_whole
from binary_checks.model import FirstLoad, Kind, Layout, Member, Package, TargetSystem
from binary_checks.model.code_names import ImportOpenings
from binary_checks.model.extensions import is_extension, parse_extension_name
from binary_checks.model.protocols import Tree
from binary_checks.python_code.execution import Load
from binary_checks.python_code.import_order import ImportOrder
from binary_checks.python_code.mentions import is_source
from binary_checks.python_code.named_files import spell_stems
from binary_checks.python_code.own_modules import OwnModules

_LONGEST = 192 << 10  # bytes of a source that is read
_MOST_BYTES = 2 << 20  # of all sources of a package together
OpenTree = Callable[[], Tree]


def find_first_loads(
    package: Package,
    roots: Iterable[str],
    open_tree: OpenTree,
    others: Iterable[tuple[Package, OpenTree]],
    target: TargetSystem,
) -> dict[str, tuple[FirstLoad, ...]]:
    """By root: the objects that code has loaded before it, in order.

    The others are those beside the package that it may import, and how to open each.
    """
    own = _Code(package, open_tree, target)
    beside = _Beside(others, package.layout, target)
    modules = {path: name for name, path in own.modules.items()}
    found: dict[str, tuple[FirstLoad, ...]] = {}
    for root in roots:
        path = package.layout.shorten(root)
        loads = own.order.before(path, modules.get(path, ""))
        first = tuple(dict.fromkeys(beside.follow(loads, frozenset())))
        if first:
            found[root] = first
    return found


class _Code:
    """The Python code of one package, read when it is asked for."""

    def __init__(self, package: Package, open_tree: OpenTree, target: TargetSystem) -> None:
        shorten = package.layout.shorten
        self.modules = dict(_name_modules(package))
        paths = [shorten(member.path) for member in package.members]
        sources = _read_sources(package, open_tree)
        own = OwnModules(sources, self.modules, paths, target.system)
        self.order = ImportOrder(own, _name_libraries(package))


def find_openings(package: Package, open_tree: OpenTree, target: TargetSystem) -> ImportOpenings:
    """Find the objects that importing the package opens by their paths."""
    code = _Code(package, open_tree, target)
    runs = [code.order.openings(top) for top in sorted(_list_tops(package))]
    opened = {path: all(run.get(path, True) for run in runs) for run in runs for path in run}
    place = package.layout.place
    return ImportOpenings(
        demanded=frozenset(place(path) for path, spared in opened.items() if not spared),
        tried=frozenset(place(path) for path, spared in opened.items() if spared),
        followed=code.order.followed,
    )


def _name_libraries(package: Package) -> dict[str, frozenset[str]]:
    """The objects that code may open, by all that it may write for them."""
    named: dict[str, set[str]] = {}
    for item in package.objects:
        path = package.layout.shorten(item.path)
        if item.kind is Kind.SHARED and ".libs/" not in path:
            for stem in spell_stems(item.file_name):
                named.setdefault(stem, set()).add(path)
    return {stem: frozenset(paths) for stem, paths in named.items()}


class _Beside:
    """The packages that lie beside, by the modules that they have."""

    def __init__(
        self, others: Iterable[tuple[Package, OpenTree]], layout: Layout, target: TargetSystem
    ) -> None:
        self._layout, self._target = layout, target
        self._codes: dict[str, _Code] = {}
        self._tops: dict[str, tuple[Package, OpenTree]] = {}
        for package, open_tree in others:
            for top in _list_tops(package):
                self._tops.setdefault(top, (package, open_tree))

    def follow(self, loads: Iterable[Load], seen: frozenset[str]) -> Iterable[FirstLoad]:
        """The objects that were loaded, also those that importing another package's module loads.

        What that has imported in its turn comes before it. All of them lie in the site-packages of
        the judged package, from whatever Python the paths of the others count.
        """
        for load in loads:
            top = load.module.partition(".")[0]
            if load.path:
                path = self._layout.place(load.path)
                yield FirstLoad(path=path, everywhere=load.everywhere)
            elif top in self._tops and load.module not in seen:
                other = self._open(*self._tops[top])
                more = other.order.import_module(load.module)
                yield from self.follow(more, seen | {load.module})

    def _open(self, package: Package, open_tree: OpenTree) -> _Code:
        if package.name not in self._codes:
            self._codes[package.name] = _Code(package, open_tree, self._target)
        return self._codes[package.name]


def _name_modules(package: Package) -> Iterable[tuple[str, str]]:
    """The extension modules by their full names, as far as they lie in site-packages."""
    for item in package.objects:
        inside = package.layout.inside(item.path)
        name = parse_extension_name(item.path)
        if inside and name is not None and is_extension(item):
            folder = inside.rpartition("/")[0].replace("/", ".")
            yield ".".join(filter(None, (folder, name.stem))), inside


def _list_tops(package: Package) -> set[str]:
    """The names that its modules begin with."""
    inside = filter(None, (package.layout.inside(item.path) for item in package.members))
    code = (path.partition("/") for path in inside if path.endswith(".py"))
    extensions = (name.partition(".")[0] for name, _ in _name_modules(package))
    return {top if slash else top.removesuffix(".py") for top, slash, _ in code}.union(extensions)


def _read_sources(package: Package, open_tree: OpenTree) -> dict[str, bytes]:
    """Python files by their paths from site-packages, the outermost first, as many as may be read.

    One that cannot be read is left out, and all where the package cannot be opened again: then
    nothing is known to come first.
    """
    try:
        with closing(open_tree()) as tree:
            return _read_all(package, tree, _choose(package))
    except (PackageError, BrokenDataError, OSError):
        return {}


def _choose(package: Package) -> dict[str, Member]:
    inside = ((package.layout.inside(item.path), item) for item in package.members)
    code = {
        path: item for path, item in inside if path and path.endswith(".py") and is_source(path)
    }
    chosen: dict[str, Member] = {}
    total = 0
    for path in sorted(code, key=lambda path: (path.count("/"), path)):
        size = code[path].size
        if size <= _LONGEST and total + size <= _MOST_BYTES:
            total += size
            chosen[path] = code[path]
    return chosen


def _read_all(package: Package, tree: Tree, chosen: Mapping[str, Member]) -> dict[str, bytes]:
    found = ((path, find_entry(tree, item, package.layout)) for path, item in chosen.items())
    return dict(read_whole(tree, [(path, entry) for path, entry in found if entry is not None]))
