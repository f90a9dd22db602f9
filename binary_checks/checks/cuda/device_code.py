"""Whether a package has code for its target GPUs, in every container."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.device_containers import (
    DRIVEN,
    FORMATS,
    find_carriers,
    find_unlinked_units,
    has_code,
    is_never_linked,
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
from binary_checks.model import DeviceKind, Finding, Level, Note, NotInspected, Package, Problem
from binary_checks.model.device import DeviceDetails


@check
def missing_gpu_architecture(
    package: Package, *, expected: tuple[str, ...] = (), exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has no code for a GPU architecture that the profile expects, or not everywhere.

    Each container is judged; a compiler makes one for each source file. ``sm_90`` is machine code
    of that number with any suffix, ``sm_90a`` only with that suffix, and ``compute_90`` is PTX;
    where a file does not record the suffix it gets the benefit of the doubt. Not judged are
    containers without NVIDIA code that a driver accepts, loose cubins, and files whose path matches
    a glob of ``exempt``: FlashAttention's kernels are built for fewer on purpose. Of relocatable
    code (``-rdc=true``) the linked container counts, for its own architectures and for those that
    the driver can link, as every source file has machine code or PTX for them.

    Why: on such a GPU the code of that one source file fails with "no kernel image is available for
    execution on the device", while the rest of the package works.
    Fix: compile every source with ``-gencode arch=compute_90,code=sm_90``, or exempt the file.
    Level: the code fails on GPUs that the project promises.
    """
    if not expected:
        raise NotApplicable("the profile expects no GPU architecture (the option expected)")
    carriers = select_carriers(package, exempt, loose=False)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        if forgotten := [group for group in groups if is_never_linked(group)]:
            yield Problem(
                path=item.path,
                sentence=f"has relocatable code in {share_of(forgotten, groups)} that was never "
                "linked: no GPU runs it; link it with nvcc -dlink",
            )
        for name in dict.fromkeys(expected):
            if lacking := [g for g in groups if not (has_code(g, name) or is_never_linked(g))]:
                yield Problem(
                    path=item.path,
                    sentence=f"lacks {name} in {share_of(lacking, groups)}: on such GPUs that code "
                    f"fails, or runs as code for another; build it for {name}",
                )
        yield from tell_doubt(
            item, [g for g in item.device_containers if not all(has_code(g, n) for n in expected)]
        )


@check
def unexpected_gpu_architecture(
    package: Package, *, allowed: tuple[str, ...] = (), exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has code for a GPU architecture that the profile does not allow.

    ``sm_90`` allows machine code and PTX of that number with any suffix, ``sm_90a`` only that
    suffix, ``compute_90`` only PTX. ``exempt`` are globs on paths. Code for the device linker (LTO)
    and for AMD is not judged.

    Why: each architecture makes the package larger by about the same amount, up to the index's
    limit, and an architecture that was not requested is not tested.
    Fix: remove it from ``TORCH_CUDA_ARCH_LIST`` or ``CMAKE_CUDA_ARCHITECTURES``; where none is
    given, compilers and build systems add their own.
    Level: the project itself lists what it allows.
    """
    if not allowed:
        raise NotApplicable("the profile allows every GPU architecture (the option allowed)")
    carriers = select_carriers(package, exempt, loose=True)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = [
            group
            for group in item.device_containers
            if any(target.kind in DRIVEN for target in group.targets)
        ]
        for target in sorted({t for group in groups for t in group.targets if t.kind in DRIVEN}):
            if not any(permits(name, target) for name in allowed):
                having = [group for group in groups if target in group.targets]
                yield Problem(
                    path=item.path,
                    sentence=f"has {name_target(target)} in {share_of(having, groups)}, which the "
                    "profile does not allow: it takes space and is untested; leave it out of the "
                    "build",
                )
        yield from tell_doubt(item, item.device_containers)


@check
def no_forward_compatible_ptx(
    package: Package, *, required: bool = False, exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has no PTX for its newest architecture, so future GPUs may not run it.

    Each container is judged by the newest architecture of its library without a suffix, or with
    one where it has no other. PTX with the suffix ``a`` or ``f`` does not count: no GPU of a later
    family accepts it. Loose cubins never have PTX. ``exempt`` are globs on paths.

    Why: machine code runs only on its own generation. For a later GPU the driver compiles PTX; PTX
    of an older architecture gives slower code.
    Fix: add ``-gencode arch=compute_120,code=compute_120`` (``+PTX`` in ``TORCH_CUDA_ARCH_LIST``).
    Level: the project itself requires it: without it the code fails on future GPUs.
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
                "later GPU has no code there, or only slower code from older PTX; add "
                f"-gencode arch=compute_{newest},code=compute_{newest}",
            )
        least = max(newest, 1)  # where nothing is known, PTX is not known either
        yield from tell_doubt(item, [g for g in item.device_containers if newest_ptx(g) < least])


@check
def malformed_device_code(package: Package) -> Iterator[Finding]:
    """The GPU code of a file contradicts itself.

    Why: the CUDA or HIP runtime reads the same headers when the library is loaded: it fails, or
    finds no kernel for the GPU. Code after such a place may not have been judged either.
    Fix: look for a step after the device linker that damaged the file: a truncated copy, ``strip``,
    ``objcopy`` or a tool that rewrites sections; otherwise rebuild it.
    Level: the GPU's runtime finds no kernel, or fails when the library is loaded.
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


@check
def corrupt_device_code(package: Package, details: DeviceDetails) -> Iterator[Finding]:
    """GPU code of a file does not decompress, or is not what its container says.

    Of the code for NVIDIA's GPUs 16 cubins and 16 texts of PTX are decompressed in each file,
    spread over all of it, to exactly as much as their heads claim; a note says of how many. All are
    with ``thorough = true`` in the profile's table ``[probes.device_code]``, with
    ``--binary-thorough``, and for ``binary-checks inspect --device-details``. A cubin must be an
    ELF file for such a GPU, of the architecture that its head names, with all its sections in it;
    PTX must have a version and a target. Instructions and kernels are not verified: nvcc writes no
    checksums, so that a changed byte is found only where decompression fails. This requires the
    extra ``binary-checks[device]``; without it compressed code is not inspected.

    Why: the container's heads may be sound while the code behind them is truncated or overwritten.
    The driver decompresses it when the first kernel of that source file is launched, and fails.
    Fix: look for a step after the device linker that damaged the file: a truncated copy or download
    cache, a tool that rewrites sections; otherwise rebuild it.
    Level: the code fails on the GPU that it was compiled for.
    """
    carriers = tuple(find_carriers(package))
    absent = "no device code in the package"
    yield from find_unread(package, found=bool(carriers), absent=absent, formats=FORMATS)
    if carriers and not details.objects:
        raise NotApplicable("no code for NVIDIA's GPUs in the package")
    yield from _note_sample(details)
    for item in details.objects:
        for group in item.unread:
            first = "" if group.count == 1 else "first "
            plural = "entry" if group.count == 1 else "entries"
            place = f"{group.count:,} {plural} of device code, {first}at offset {group.offset}"
            if group.broken:
                sentence = f"has {place}, that the GPU driver cannot load: {group.reason}"
                yield Problem(path=item.path, sentence=sentence)
            elif group.lacking:  # in the words of all checks that read it, so that it is said once
                sentence = f"its device code could not be read: {group.reason}"
                yield NotInspected(path=item.path, sentence=sentence)
            else:
                sentence = f"{place}: {group.reason}"
                yield NotInspected(path=item.path, sentence=sentence, too_large=group.too_large)


def _note_sample(details: DeviceDetails) -> Iterator[Note]:
    """Say how much was decompressed where it is not all."""
    inspected = sum(item.inspected for item in details.objects)
    entries = sum(item.entries for item in details.objects)
    parts = [item for item in details.objects if item.inspected < item.entries]
    if parts:
        sentence = f"{inspected:,} of {entries:,} cubins and texts of PTX were decompressed"
        yield Note(path=parts[0].path if len(parts) == 1 else "", sentence=sentence)


@check(enabled=False, level=Level.WARNING)
def uneven_gpu_architectures(
    package: Package, *, exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Source files of one library were compiled for different GPU architectures.

    Off unless a profile enables it: CUTLASS and FlashAttention kernels are built for fewer on
    purpose, and most large libraries have some. Only machine code is compared, without suffixes;
    ``exempt`` are globs on paths. Relocatable code (``-rdc=true``) that was linked for a GPU
    without some of its source files, which have no code for it, is reported too.

    Why: if the architecture list is overridden for one file, or comes from another library's
    default, there are GPUs on which one function fails and all others work.
    Fix: pass the same ``-gencode`` options to every source; see ``missing-gpu-architecture`` to
    require a list.
    Level: most large libraries have kernels that are built for fewer GPUs on purpose.
    """
    carriers = select_carriers(package, exempt, loose=False)
    yield from tell_unread(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        sass = {number_of(t) for g in groups for t in g.usable if t.kind is DeviceKind.SASS}
        for number in sorted(sass - {0}):
            name = f"sm_{number}"
            if others := [group for group in groups if not has_code(group, name)]:
                every = sum(group.count for group in groups)
                count = every - sum(group.count for group in others)
                yield Problem(
                    path=item.path,
                    sentence=f"has {name} in {count} of {every} containers, none in the others, "
                    f"first {place_of(others)}: on such a GPU those fail, or "
                    "run code for another; build all for the same",
                )
        for target, without, units in find_unlinked_units(item):
            yield Problem(
                path=item.path,
                sentence=f"was linked for {name_target(target)} without the relocatable code in "
                f"{share_of(without, units)}, which has none for it: its functions are missing "
                "on such a GPU; build all for the same",
            )
        yield from tell_doubt(item, item.device_containers)
