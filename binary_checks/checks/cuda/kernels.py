"""Whether every kernel of a source file was compiled for all of its architectures."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.model import Finding, Level, Note, NotInspected, Problem
from binary_checks.model.missing_kernels import KernelGap, KernelGaps

_LONGEST = 100  # characters of a mangled name


@check(enabled=False, level=Level.WARNING)
def kernel_lacks_architecture(
    found: KernelGaps, *, exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A kernel is missing in the code for one architecture, though the same source file has others.

    Off unless a profile enables it, as all device code is decompressed. A compiler makes a
    container for each source file; the kernels of its cubins are compared by their mangled names,
    without the architectures' suffixes. ``exempt`` are globs on mangled names, for kernels that are
    left out on purpose. See uneven-gpu-architectures for source files that lack an architecture as
    a whole.

    Why: a kernel that ``#if __CUDA_ARCH__`` hides from one architecture is missing there without a
    word from the compiler; calling it on such a GPU fails with "invalid device function", while
    everything else works.
    Fix: give the kernel a body for that architecture, or refuse it in the host code with a clear
    message, and exempt it.
    Level: most such kernels are left out on purpose, and host code does not call them there.
    """
    if not found.objects:
        raise NotApplicable("no code for NVIDIA's GPUs in the package")
    for item in found.objects:
        for reason in item.unread:
            yield NotInspected(path=item.path, sentence=f"not all kernels were compared: {reason}")
        by_lack: dict[tuple[tuple[str, ...], tuple[str, ...]], list[KernelGap]] = {}
        spared = 0
        for gap in item.gaps:
            if any(fnmatchcase(gap.name, pattern) for pattern in exempt):
                spared += 1
            else:
                by_lack.setdefault((gap.lacking, gap.having), []).append(gap)
        for gaps in by_lack.values():
            yield _accuse(item.path, gaps)
        if spared:
            those = "1 kernel that an architecture lacks is"
            if spared > 1:
                those = f"{spared} kernels that an architecture lacks are"
            yield Note(
                path=item.path, sentence=f"{those} exempt by the profile (the option exempt)"
            )
    if not any(item.containers or item.unread for item in found.objects):
        raise NotApplicable("no source file was compiled for more than one architecture")


def _accuse(path: str, gaps: list[KernelGap]) -> Problem:
    first = gaps[0]
    others = f" and {len(gaps) - 1} more" if len(gaps) > 1 else ""
    name = first.name if len(first.name) <= _LONGEST else f"{first.name[:_LONGEST]}..."
    plural, verb = ("s", "are") if len(gaps) > 1 else ("", "is")
    return Problem(
        path=path,
        sentence=f"lacks {len(gaps)} kernel{plural} for {', '.join(first.lacking)} that {verb} "
        f"there for {', '.join(first.having)}: {name}{others} (container at offset "
        f'{first.offset}); calling it there fails with "invalid device function"',
    )
