"""Whether a package has code for the GPUs that it is for, in every container."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.device_containers import (
    DRIVEN,
    FORMATS,
    find_carriers,
    has_code,
    is_taken,
    judged_containers,
    name_target,
    newest_plain,
    newest_ptx,
    number_of,
    permits,
    place_of,
    select_carriers,
    share_of,
    tell_doubt,
    tell_gaps,
    tell_unread,
)
from binary_checks.knowledge.unloaded_objects import find_unread
from binary_checks.model import DeviceKind, Finding, Package, Problem


@check
def missing_gpu_architecture(
    package: Package, *, expected: tuple[str, ...] = (), exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has no code for a GPU architecture that the profile expects, or not everywhere.

    Each container is judged, of which a compiler makes one a source file. ``sm_90`` is machine code
    of that number, whatever its suffix, ``sm_90a`` that suffix alone, and ``compute_90`` is PTX;
    where a file does not tell a suffix it is given the benefit of the doubt. Containers without
    NVIDIA code that a driver takes and loose cubins are left out, and files whose path a glob of
    ``exempt`` fits: FlashAttention's kernels are built for fewer on purpose.

    Why: on such a GPU what was compiled from that one source file fails with "no kernel image is
    available for execution on the device", while the rest of the package works.
    Fix: compile every source with ``-gencode arch=compute_90,code=sm_90``, or exempt the file.
    """
    if not expected:
        raise NotApplicable("the profile expects no GPU architecture (the option expected)")
    carriers = select_carriers(package, exempt, loose=False)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        for name in dict.fromkeys(expected):
            if lacking := [group for group in groups if not has_code(group, name)]:
                yield Problem(
                    path=item.path,
                    sentence=f"lacks {name} in {share_of(lacking, groups)}: on such a GPU what was "
                    f"compiled there fails, or runs as code for another; build it for {name}",
                )
        yield from tell_doubt(
            item, [g for g in item.device_containers if not all(has_code(g, n) for n in expected)]
        )


@check
def unexpected_gpu_architecture(
    package: Package, *, allowed: tuple[str, ...] = (), exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has code for a GPU architecture that the profile does not allow.

    ``sm_90`` allows machine code and PTX of that number, whatever the suffix, ``sm_90a`` that
    suffix alone, ``compute_90`` PTX alone. ``exempt`` are globs on paths. Code for the device
    linker (LTO) and for AMD is not judged.

    Why: each architecture makes the package larger by about as much as the one before, up to the
    index's limit, and one that nobody asked for is one that nobody tests.
    Fix: take it off ``TORCH_CUDA_ARCH_LIST`` or ``CMAKE_CUDA_ARCHITECTURES``; where none is given
    compilers and build systems add their own.
    """
    if not allowed:
        raise NotApplicable("the profile allows every GPU architecture (the option allowed)")
    carriers = select_carriers(package, exempt, loose=True)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = [group for group in item.device_containers if is_taken(group)]
        for target in sorted({t for group in groups for t in group.targets if t.kind in DRIVEN}):
            if not any(permits(name, target) for name in allowed):
                having = [group for group in groups if target in group.targets]
                yield Problem(
                    path=item.path,
                    sentence=f"has {name_target(target)} in {share_of(having, groups)}, which the "
                    "profile does not allow: it takes room and nobody tests it; leave it out of "
                    "the build",
                )
        yield from tell_doubt(item, item.device_containers)


@check
def no_forward_compatible_ptx(
    package: Package, *, required: bool = False, exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has no PTX for its newest architecture, so that GPUs to come may not run it.

    Each container is judged by the newest architecture of its library without a suffix, or with
    one where it has no other. PTX with the suffix ``a`` or ``f`` does not count: no GPU of a later
    family takes it. Loose cubins have none by nature. ``exempt`` are globs on paths.

    Why: machine code runs on its own generation alone. The driver makes code for a later GPU from
    PTX; from that of an older architecture it makes slower code.
    Fix: add ``-gencode arch=compute_120,code=compute_120`` (``+PTX`` in ``TORCH_CUDA_ARCH_LIST``).
    """
    if not required:
        raise NotApplicable("the profile requires no PTX (the option required)")
    carriers = select_carriers(package, exempt, loose=False)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        newest = newest_plain(item)
        if lacking := [group for group in groups if newest_ptx(group) < newest]:
            share = share_of(lacking, groups)
            yield Problem(
                path=item.path,
                sentence=f"lacks PTX for sm_{newest}, its newest plain one, in {share}: a "
                "later GPU has no code there, or only slower code made from older PTX; add "
                f"-gencode arch=compute_{newest},code=compute_{newest}",
            )
        least = max(newest, 1)  # where nothing is known, PTX is not known either
        yield from tell_doubt(item, [g for g in item.device_containers if newest_ptx(g) < least])


@check
def malformed_device_code(package: Package) -> Iterator[Finding]:
    """The GPU code of a file contradicts itself.

    Why: the CUDA or HIP runtime reads the same heads when the library is loaded: it fails there, or
    finds no kernel for the GPU. What follows such a place may not have been judged either.
    Fix: look at what was done to the file after the device linker: a truncated copy, ``strip``,
    ``objcopy`` or a tool that rewrites sections; else build it anew.
    """
    carriers = tuple(find_carriers(package))
    absent = "no device code in the package"
    yield from find_unread(package, found=bool(carriers), absent=absent, formats=FORMATS)
    for item in carriers:
        for fault in item.device_faults:
            yield Problem(
                path=item.path,
                sentence=f"has broken device code at offset {fault.offset}: {fault.reason}; the "
                "GPU runtime may find no kernel in it",
            )
        yield from tell_gaps(item, item.device_containers)


@check(enabled=False)
def uneven_gpu_architectures(
    package: Package, *, exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Source files of one library were compiled for different GPU architectures.

    Off unless a profile asks for it: CUTLASS and FlashAttention kernels are built for fewer on
    purpose, and most large libraries have some. Machine code alone is compared, without suffixes;
    ``exempt`` are globs on paths.

    Why: a list of architectures that was overridden for one file or taken from another library's
    default leaves GPUs on which one function fails and all others work.
    Fix: hand the same ``-gencode`` options to every source; see ``missing-gpu-architecture`` to
    demand a list.
    """
    carriers = select_carriers(package, exempt, loose=False)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        sass = {number_of(t) for g in groups for t in g.targets if t.kind is DeviceKind.SASS}
        for number in sorted(sass - {0}):
            name = f"sm_{number}"
            if others := [group for group in groups if not has_code(group, name)]:
                every = sum(group.count for group in groups)
                count = every - sum(group.count for group in others)
                yield Problem(
                    path=item.path,
                    sentence=f"has {name} in {count} of {every} containers, none in the others, "
                    f"first {place_of(others)}: on such a GPU those fail, or run "
                    "as code for another; build all for the same",
                )
        yield from tell_doubt(item, item.device_containers)
