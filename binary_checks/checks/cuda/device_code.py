"""Whether a package has code for its target GPUs, current and future ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.device_code import (
    DRIVEN,
    FORMATS,
    find_carriers,
    find_container_gaps,
    find_gaps_and_faults,
    find_unlinked_units,
    find_unread_carriers,
    has_code,
    is_empty,
    is_never_linked,
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
)
from binary_checks.knowledge.gaps import find_unread
from binary_checks.model import (
    Compilation,
    CompilerReport,
    DeviceDetails,
    DeviceKind,
    Ending,
    Finding,
    Level,
    Note,
    NotInspected,
    NvrtcReport,
    Package,
    Problem,
    PtxLink,
    PtxLinkReport,
    PtxText,
    PtxTexts,
    TritonReport,
)
from binary_checks.wording.problem_lines import name_end
from binary_checks.wording.sentences import describe_end

# Whether a package has code for its target GPUs, in every container.


@check
def missing_gpu_architecture(
    package: Package, *, expected: tuple[str, ...] = (), exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has no code for a GPU architecture that the profile expects, or only in some files.

    Each container is judged; a compiler makes one for each source file. ``sm_90`` is machine code
    of that number with any suffix, ``sm_90a`` only with that suffix, and ``compute_90`` is PTX; if
    a file does not record the suffix, it is assumed to be right. The check does not judge
    containers without NVIDIA code that a driver accepts, loose cubins, and files whose path matches
    a glob of ``exempt``: FlashAttention's kernels are built for fewer architectures on purpose. If
    code is relocatable (``-rdc=true``), the linked container is judged, by its own architectures
    and by those for which every source file has machine code or PTX that the driver can link.

    Why: on such a GPU the code of that one source file fails with "no kernel image is available for
    execution on the device", while the rest of the package works.
    Fix: compile every source with ``-gencode arch=compute_90,code=sm_90``, or exempt the file.
    Level: the code fails on GPUs that the project promises.
    """
    if not expected:
        raise NotApplicable("the profile expects no GPU architecture (the option expected)")
    carriers = select_carriers(package, exempt, loose=False)
    yield from find_unread_carriers(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        if forgotten := [group for group in groups if is_never_linked(group)]:
            yield Problem(
                path=item.path,
                sentence=f"has relocatable code in {share_of(forgotten, groups)} that was never "
                "linked: no GPU runs it; link it with nvcc -dlink",
                facts=("-dlink",),
            )
        for name in dict.fromkeys(expected):
            if lacking := [g for g in groups if not (has_code(g, name) or is_never_linked(g))]:
                yield Problem(
                    path=item.path,
                    sentence=f"lacks {name} in {share_of(lacking, groups)}: on such GPUs that code "
                    f"fails, or code for another GPU runs; build it for {name}",
                    facts=(name,),
                )
        yield from find_gaps_and_faults(
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
    Fix: remove it from ``TORCH_CUDA_ARCH_LIST`` or ``CMAKE_CUDA_ARCHITECTURES``; if neither is set,
    compilers and build systems add their own.
    Level: the project itself lists what it allows.
    """
    if not allowed:
        raise NotApplicable("the profile allows every GPU architecture (the option allowed)")
    carriers = select_carriers(package, exempt, loose=True)
    yield from find_unread_carriers(package, carriers, exempt)
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
                    facts=(name_target(target),),
                )
        yield from find_gaps_and_faults(item, item.device_containers)


@check
def no_forward_compatible_ptx(
    package: Package, *, required: bool = False, exempt: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """A library has no PTX for its newest architecture, so future GPUs may not run it.

    Each container is compared with the library's newest architecture. An architecture with a suffix
    counts only if the library has no other. PTX with the suffix ``a`` or ``f`` does not count: no
    GPU of a later family accepts it. Loose cubins never have PTX. ``exempt`` are globs on paths.

    Why: machine code runs only on its own generation. For a later GPU the driver compiles PTX; PTX
    of an older architecture gives slower code.
    Fix: add ``-gencode arch=compute_120,code=compute_120`` (``+PTX`` in ``TORCH_CUDA_ARCH_LIST``).
    Level: the project itself requires it: without it the code fails on future GPUs.
    """
    if not required:
        raise NotApplicable("the profile requires no PTX (the option required)")
    carriers = select_carriers(package, exempt, loose=False)
    yield from find_unread_carriers(package, carriers, exempt)
    for item in carriers:
        groups = judged_containers(item)
        newest = newest_plain(item)
        if lacking := [group for group in groups if newest_ptx(group) < newest]:
            share = share_of(lacking, groups)
            yield Problem(
                path=item.path,
                sentence=f"lacks PTX for sm_{newest}, its newest architecture without a suffix, in "
                f"{share}: a later GPU has no code there, or only slower code from older PTX; add "
                f"-gencode arch=compute_{newest},code=compute_{newest}",
                facts=(f"sm_{newest}",),
            )
        # if no architecture is known, PTX is unknown, too
        without = [g for g in item.device_containers if not newest_ptx(g) or newest_ptx(g) < newest]
        yield from find_gaps_and_faults(item, without)


@check
def malformed_device_code(package: Package) -> Iterator[Finding]:
    """The GPU code of a file contradicts itself, or a container of it is empty.

    A compiler makes one container for each source file, and puts code into each.

    Why: the CUDA or HIP runtime reads the same headers when the library is loaded: it fails, or
    finds no kernel for the GPU. Code behind the contradiction may not have been judged. No GPU runs
    the kernels of an empty container.
    Fix: look for a step after the device linker that damaged the file: a truncated copy, ``strip``,
    ``objcopy`` or a tool that rewrites sections; otherwise rebuild it.
    Level: the GPU's runtime finds no kernel, or fails when the library is loaded. An empty
    container among others is a warning: no program may need its code, if nvprune removed it.
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
        groups = judged_containers(item)
        empty = list(filter(is_empty, groups))
        if empty and any(map(is_taken, groups)):
            yield Problem(
                path=item.path,
                sentence=f"has no code in {share_of(empty, groups)}: no GPU runs the functions of "
                "that source file; look for a tool that removed it since it was compiled",
                level=Level.WARNING,
            )
        yield from find_container_gaps(item, item.device_containers)


@check
def corrupt_device_code(package: Package, details: DeviceDetails) -> Iterator[Finding]:
    """GPU code of a file does not decompress, or differs from what its container says.

    In each file with code for NVIDIA's GPUs, 16 cubins and 16 texts of PTX, spread over the file,
    are decompressed to the size that their headers state; a note gives the total number. All are
    decompressed with ``thorough = true`` in the profile's table ``[probes.device_code]``, with
    ``--binary-thorough``, and by ``binary-checks inspect --device-details``. A cubin must be an ELF
    file for such a GPU, of the architecture that its header names, with all its sections in it; PTX
    must have a version and a target. Instructions and kernels are not verified: nvcc writes no
    checksums, so a changed byte is found only if decompression fails. This requires the extra
    ``binary-checks[device]``; without it compressed code is not inspected.

    Why: the container's headers may be sound while the code behind them is truncated or
    overwritten. The driver decompresses it when the first kernel of that source file is launched,
    and fails.
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
                sentence = f"has {place}, which the GPU driver cannot load: {group.reason}"
                yield Problem(path=item.path, sentence=sentence)
            # in the same words as other checks that read it, so that it is reported once
            elif group.lacking:
                sentence = f"its device code could not be read: {group.reason}"
                yield NotInspected(path=item.path, sentence=sentence)
            else:
                sentence = f"{place}: {group.reason}"
                yield NotInspected(path=item.path, sentence=sentence, too_large=group.too_large)


def _note_sample(details: DeviceDetails) -> Iterator[Note]:
    """Report how much was decompressed, if it is not everything."""
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

    Off unless a profile enables it: CUTLASS and FlashAttention kernels are built for fewer
    architectures on purpose, and most large libraries have some of them. Only machine code is
    compared, without suffixes; ``exempt`` are globs on paths. Relocatable code (``-rdc=true``) that
    was linked for a GPU without some of its source files, which have no code for it, is reported,
    too.

    Why: if the architecture list is overridden for one file, or comes from another library's
    default, there are GPUs on which one function fails and all others work.
    Fix: pass the same ``-gencode`` options to every source; see ``missing-gpu-architecture`` to
    require a list.
    Level: most large libraries have kernels that are built for fewer GPUs on purpose.
    """
    carriers = select_carriers(package, exempt, loose=False)
    yield from find_unread_carriers(package, carriers, exempt)
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
                    sentence=f"has {name} in {count} of {every} containers; the others lack it, "
                    f"first {place_of(others)}: on such a GPU they fail, or "
                    "run code for another GPU; build all for the same architectures",
                    facts=(name,),
                )
        for target, without, units in find_unlinked_units(item):
            yield Problem(
                path=item.path,
                sentence=f"was linked for {name_target(target)} without the relocatable code in "
                f"{share_of(without, units)}, which has none for it: its functions are missing "
                "on such a GPU; build all for the same architectures",
                facts=("-dlink", name_target(target)),
            )
        yield from find_gaps_and_faults(item, item.device_containers)


# Whether PTX compiles on GPUs for which a package has no machine code.

_NUMBER = re.compile(r"(?:sm_)?([0-9]{1,5})[af]*")  # a library may report thousands of digits


@check
def ptx_assembly_fails(report: PtxLinkReport, sample: PtxTexts) -> Iterator[Finding]:
    """PTX that a package ships does not compile for a GPU that it is meant for.

    The nvJitLink that is installed with the package links its PTX into machine code, for which it
    needs neither a GPU nor a driver. The targets are the newest GPU of each major version that this
    nvJitLink knows, beginning with the text's own version; ``a`` code is linked for its own GPU,
    ``f`` code for its family. The smallest and the largest texts are taken until ``bytes`` in the
    profile's table ``[probes.ptx]`` is used up, each byte counted once for every target; a text
    that is too large for all targets is linked for the newest alone. ``targets`` there names other
    targets, and ``requires`` a distribution that has nvJitLink (``nvidia-nvjitlink``) if the
    package requires none. Targets and PTX versions that this nvJitLink does not know are not
    problems.

    Why: PTX is all that a package has for later GPUs. The driver compiles it there for the first
    time, with the same assembler, and PTX that it refuses fails only on the user's machine.

    Fix: rewrite the inline assembly, or the source code, from which the named line was made; do not
    ship PTX with instructions that later GPUs lack.

    Level: on such a GPU the kernels cannot be loaded.
    """
    name = f"nvJitLink {report.version}"
    if report.step.outcome is not Ending.OK:
        yield NotInspected(sentence=f"nvJitLink ({report.library}) {describe_end(report.step)}")
    for link in report.links:
        if not (link.refusal or link.assembled):
            sentence = f"{_describe(link.text)}, for {link.target}: {link.lack}"
            yield NotInspected(path=link.text.path, sentence=sentence)
    yield from _report_refused(
        (link.text.path, _describe(link.text), f"{link.refusal}{_place(link)}", link.target)
        for link in report.links
        if link.refusal
    )
    yield from _report_gaps(report, sample, name)
    yield from _report_share(report, sample, name)


def _describe(text: PtxText) -> str:
    member = f" in {text.member}" if text.member else ""
    return f"its PTX for {text.architecture} at offset {text.offset}{member}"


def _place(link: PtxLink) -> str:
    kernel = f"in {link.kernel}" if link.kernel else ""
    places = ", ".join(filter(None, (kernel, f"line {link.line}" if link.line else "")))
    return f" ({places})" if places else ""


def _report_gaps(report: PtxLinkReport, sample: PtxTexts, name: str) -> Iterator[Finding]:
    for path, unread in sample.unread:
        plural = "" if unread.count == 1 else "s"
        sentence = f"{unread.count} PTX text{plural}, first at offset {unread.offset}: "
        yield NotInspected(path=path, sentence=sentence + unread.reason)
    if report.untried and report.step.outcome is Ending.OK:
        first = report.untried[0]
        others = f", and {len(report.untried) - 1} more" if len(report.untried) > 1 else ""
        yield NotInspected(
            path=first.path, sentence=f"{_describe(first)}{others}: not tried with {name}"
        )


def _report_share(report: PtxLinkReport, sample: PtxTexts, name: str) -> Iterator[Finding]:
    done = {link.text: link for link in report.links if link.assembled}
    if not done:
        if not (sample.texts or sample.unread):
            yield NotInspected(
                sentence=f"none of {sample.found} PTX texts ({sample.size / 1e6:.1f} MB) is small "
                "enough; raise bytes in [probes.ptx]"
            )
        return
    targets = dict.fromkeys(link.target for link in report.links if link.assembled)
    size = sum(len(text.content) for text in done)
    yield Note(
        sentence=f"{name} links {len(done)} of {sample.found} PTX texts ({size / 1e6:.1f} of "
        f"{sample.size / 1e6:.1f} MB) for {', '.join(sorted(targets, key=_number))}"
    )


def _number(target: str) -> tuple[int, str]:
    found = _NUMBER.fullmatch(target)
    return int(found[1]) if found else 0, target


# Whether compilers of GPU code that a package uses at run time work, tried on the CPU.


@check
def nvrtc_fails(report: NvrtcReport) -> Iterator[Finding]:
    """NVRTC, as a package loads it, does not compile for an architecture that the package reports.

    ``module`` in the profile's table ``[probes.cuda]`` names the module to import. The NVRTC that
    the import loads, or the expression ``nvrtc`` there (``cupy.cuda.nvrtc.getVersion()``), compiles
    a small kernel to machine code, for which it needs neither a GPU nor a driver: for each
    architecture that ``architectures`` reports; without that expression, for each one that both
    NVRTC and the package's own code support.

    Why: packages compile kernels when they are first used (fused and generated operations, cuDNN's
    engines). A missing libnvrtc-builtins, or an NVRTC of another CUDA version, is not noticed at
    import: only such a compilation fails, on users' GPUs.

    Fix: require or bundle the NVRTC of the CUDA version that the package is built with, together
    with its libnvrtc-builtins, where the loader finds both.

    Level: every operation that is compiled at run time fails on these GPUs.
    """
    if not report.library and report.step.outcome is Ending.OK:
        yield from _judge_absence(report)
        return
    if report.stage.startswith("import ") and not report.step.finished:
        yield NotInspected(sentence=f"{report.stage} {describe_end(report.step)}")
        return
    name = f"NVRTC {report.version} ({report.library})"
    supported = set(report.supported)
    for target in report.reported if supported else ():
        if target.rstrip("af") not in supported:
            yield Problem(
                sentence=(
                    f"the package reports {target}, for which {name} cannot compile: "
                    "kernels that are compiled at run time fail on such a GPU"
                ),
                facts=(target,),
            )
    yield from judge_compilations(report, name)


def _judge_absence(report: NvrtcReport) -> Iterator[Finding]:
    unloaded = ", ".join(report.unloaded[:3])
    if report.refusal and report.unloaded:
        yield Problem(
            sentence=f"the package does not load {unloaded}: {report.refusal}",
            facts=(report.unloaded[0],),
        )
    elif report.refusal:
        yield NotInspected(sentence=f"there is no NVRTC in its environment: {report.refusal}")
    elif report.unloaded:
        yield NotInspected(
            sentence=f"the import does not load {unloaded}; name an expression that does "
            "([probes.cuda] nvrtc)"
        )
    else:
        raise NotApplicable("the package loads no NVRTC, and there is none in its environment")


@check
def triton_fails(report: TritonReport) -> Iterator[Finding]:
    """The Triton that a package requires does not compile for an architecture of the package.

    Triton and the assembler in it compile a small kernel to machine code, for which they need
    neither a GPU nor a driver: for each architecture that the expression ``architectures`` in the
    profile's table ``[probes.cuda]`` reports; without that expression, for each one that the
    package has code for. The check does not apply if the package does not require ``triton``, or if
    that table has no ``module``. An architecture that this Triton does not know is not a problem.

    Why: torch.compile and packages with kernels of their own compile with Triton when they are
    first used; a Triton without its assembler or libdevice can still be imported.

    Fix: require the version of Triton that the package is tested with.

    Level: compiled models and the package's own kernels fail on these GPUs.
    """
    name = f"Triton {report.version}"
    yield from judge_compilations(report, name)
    if report.unknown and report.compilations:
        yield Note(sentence=f"{name} does not know {', '.join(report.unknown)}")


def judge_compilations(report: CompilerReport, name: str) -> Iterator[Finding]:
    """Report the targets for which a compiler failed, and those for which it compiled."""
    step = report.step
    if step.outcome is not Ending.OK:
        what = f"{name} compiles, and the process then" if step.finished else report.stage
        yield Problem(
            sentence=f"without a GPU, {what} {describe_end(step)}", facts=(name_end(step),)
        )
    errors = ((_find_error(each), each.target) for each in report.compilations)
    yield from _report_refused(("", name, error, target) for error, target in errors if error)
    done = ", ".join(each.target for each in report.compilations if not _find_error(each))
    if done and re.match("/|[A-Za-z]:", report.library):
        yield NotInspected(
            sentence=f"{report.library} belongs to this host, not to the environment; it compiles "
            f"for {done}"
        )
    elif done:
        yield Note(sentence=f"{name} compiles for {done}")
    elif not report.compilations and step.outcome is Ending.OK:
        yield NotInspected(sentence=f"{name} knows none of the architectures of this package")


def _report_refused(refused: Iterable[tuple[str, str, str, str]]) -> Iterator[Problem]:
    """Yield one problem for all targets for which a compiler reports the same.

    The rows are the path, the text or the compiler, the compiler's message, and the target.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for path, subject, error, target in refused:
        groups.setdefault((path, subject, error), []).append(target)
    for (path, subject, error), targets in groups.items():
        sentence = f"{subject} does not compile for {', '.join(targets)}: {error}"
        yield Problem(path=path, sentence=sentence, facts=() if path else (targets[0],))


def _find_error(compilation: Compilation) -> str:
    """Return the error of a compilation; a cubin for another architecture is an error, too."""
    if compilation.error:
        return compilation.error
    if not compilation.made:
        return "it returns no machine code for NVIDIA's GPUs"
    if compilation.made != compilation.target.rstrip("af"):
        return f"it returns machine code for {compilation.made}"
    return ""
