"""What the runtimes of Emscripten require of WebAssembly modules."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.loading import downgrade
from binary_checks.model import Finding, Linkage, Package, Problem, TargetSystem, WasmFile
from binary_checks.wording.sentences import name_first

_FIRST_WITH_WASM_EXCEPTIONS = (2025, 0)


@check
def function_type_differs(linkage: Linkage, package: Package) -> Iterator[Finding]:
    """A module imports a function of the runtime with other parameters or results.

    Why: the engine compares the types of imported functions and refuses the whole module:
    ``LinkError: imported function does not match the expected type``. On other systems such a call
    passes unnoticed.
    Fix: declare the function as its header does; Fortran and f2c code often lacks parameters for
    lengths of strings, or returns ``int`` where the library returns nothing.
    Level: the import fails.
    """
    if next(iter(package.objects_of(WasmFile)), None) is None:
        raise NotApplicable("no object is a WebAssembly module")
    by_path: dict[str, list[str]] = {}
    for item in linkage.mistyped:
        sentence = f"{item.name} as {item.wanted} instead of {item.provided}"
        by_path.setdefault(item.path, []).append(sentence)
    for path, sentences in by_path.items():
        problem = Problem(
            path=path,
            sentence=f"imports {name_first(sentences)}: the engine refuses the module",
            facts=(sentences[0].partition(" ")[0],),
        )
        yield downgrade(problem, linkage)


@check
def webassembly_threads(library: WasmFile) -> Iterator[Finding]:
    """A side module was built for threads, which no runtime of Python supports.

    Why: a module that was compiled or linked with ``-pthread`` imports a shared memory. The
    runtimes of Pyodide have an unshared one, so the engine refuses the module: ``LinkError: memory
    import must be unshared``.
    Fix: build without ``-pthread`` (Rust: without the target feature ``atomics``).
    Level: the import fails.
    """
    if library.side_module and library.shared_memory:
        yield "imports a shared memory: it was built with -pthread, and the runtime has no threads"


@check
def webassembly_exceptions(library: WasmFile, target: TargetSystem) -> Iterator[Finding]:
    """A side module throws C++ exceptions, or uses longjmp, through JavaScript.

    Since ABI 2025_0 the runtime lets the engine throw exceptions (``-fwasm-exceptions``), and has
    none of the functions of JavaScript (``invoke_vii``) through which other modules call.

    Why: the first call that may throw fails with "cannot resolve symbol invoke_vii".
    Fix: compile and link with ``-fwasm-exceptions``, and with ``-sSUPPORT_LONGJMP=wasm`` for
    longjmp; Rust needs 1.93 or newer.
    Level: functions of the module fail when they are called.
    """
    abi = target.minimum_os
    if target.system != "emscripten" or abi is None or abi < _FIRST_WITH_WASM_EXCEPTIONS:
        raise NotApplicable("no tag is for an ABI in which the engine throws exceptions")
    if library.side_module and library.exceptions == "JavaScript":
        yield "calls through JavaScript to catch exceptions (invoke_…), which the runtime cannot"
