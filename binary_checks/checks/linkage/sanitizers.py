"""Whether objects were built for tests: with a sanitizer, or to measure coverage."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.knowledge.linked_libraries import PROFILERS, find_proof
from binary_checks.knowledge.loading import downgrade
from binary_checks.knowledge.sanitizers import find_runtimes
from binary_checks.model import (
    ElfFile,
    Finding,
    Level,
    Linkage,
    MachOFile,
    Package,
    PeFile,
    Problem,
)
from binary_checks.wording.problem_lines import of_library


@check
def built_with_sanitizer(
    library: ElfFile | MachOFile | PeFile, linkage: Linkage | Package
) -> Iterator[Finding]:
    """An object needs the runtime of a sanitizer.

    The runtimes of AddressSanitizer (``libasan``, ``libclang_rt.asan``), its variant for hardware
    (hwasan), LeakSanitizer, MemorySanitizer, ThreadSanitizer and UndefinedBehaviorSanitizer count.

    Why: most of these runtimes end a process in which they are not loaded first, as in any Python
    that imports the package; users do not have the library, and bundling it does not help.
    Fix: build again without ``-fsanitize``; look for it in ``CFLAGS``, ``LDFLAGS``, CMake's presets
    and Meson's ``b_sanitize``.
    Level: the import ends the process, or fails. It is a warning if the package has the runtime and
    it may be loaded late (LeakSanitizer, UndefinedBehaviorSanitizer), or if no import reaches the
    object (see missing-library).
    """
    for name, sanitizer in find_runtimes(library):
        is_there = isinstance(linkage, Linkage) and any(
            edge.needed == name and edge.resolved is not None
            for edge in linkage.edges_of(library.path, library.architecture)
        )
        sentence = (
            f"needs {name}, the runtime of {sanitizer.name}: it is a build for tests; build it "
            f"again without -fsanitize={sanitizer.option}"
        )
        problem = Problem(
            path=library.path,
            sentence=sentence,
            facts=(name,),
            level=Level.WARNING if is_there and not sanitizer.comes_first else Level.ERROR,
            cause=of_library(name),
        )
        yield downgrade(problem, linkage)


@check
def built_for_coverage(
    library: ElfFile | MachOFile | PeFile, linkage: Linkage | Package
) -> Iterator[Finding]:
    """An object counts what it executes, and writes the counts when the process ends.

    The runtimes that do so are linked statically: libgcov (``--coverage``, ``-fprofile-generate``)
    and that of LLVM (``-fprofile-instr-generate``, rustc's ``-C instrument-coverage``).

    Why: every process of a user writes files (``.gcda`` at the paths of the build machine,
    ``default.profraw`` into the current directory) or complains that it cannot, and runs more
    slowly.
    Fix: build again without the option; look for it in ``CFLAGS``, ``RUSTFLAGS``, Meson's
    ``b_coverage`` and ``b_pgo``, and CMake's presets.
    Level: users find files that they did not ask for, or messages on every exit. It is a warning if
    no import reaches the object (see missing-library).
    """
    found = next((name for name in PROFILERS if find_proof(name, library.texts)), "")
    if found:
        does = "counts what it executes and writes files when the process ends"
        problem = Problem(
            path=library.path, sentence=f"contains {found}: it {does}", facts=(found,)
        )
        yield downgrade(problem, linkage)
