"""Whether all sources of a package's CUDA or ROCm version agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.cuda import (
    compare_expected,
    compare_versions,
    cuda_of_ptx,
    disagree,
    find_answer,
    find_gap,
    find_pins,
    find_unreported,
    relates_to_cuda,
    require_cuda_build,
    require_question,
)
from binary_checks.knowledge.gaps import find_unjudged, find_unloaded, find_unread
from binary_checks.knowledge.library_names import (
    OpenedMember,
    OpenerRow,
    cuda_of_library,
    find_members,
    find_opener,
    find_shippers,
    is_for_cpu,
    is_grafted_name,
    is_nvidia_library,
    is_of_family,
    is_reduced,
    is_whole,
    may_have_family,
    must_be_whole,
    stem_of,
)
from binary_checks.knowledge.loading import Loading, find_loadings
from binary_checks.knowledge.toolkit_claims import (
    Contradiction,
    claim_by_file_name,
    claim_by_libraries,
    claim_by_needs,
    find_contradictions,
    leave_outliers_out,
    major_of_library,
    rank,
)
from binary_checks.model import (
    CudaReport,
    CudaRequest,
    DeviceToolkits,
    Distribution,
    Edge,
    Ending,
    FamilyOpener,
    Finding,
    Format,
    GivenFamilies,
    Level,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Platform,
    Problem,
    StatedToolkits,
    TargetSystem,
    ToolkitClaim,
    ToolkitSample,
    ToolkitSource,
    read_numbers,
)
from binary_checks.wording.problem_lines import OF_CPU_LABEL, name_end
from binary_checks.wording.sentences import describe_end, name_first

_OTHER_BUILD = "users who choose by this name get another build"
_RESULTS = {
    ToolkitSource.LABEL: _OTHER_BUILD,
    ToolkitSource.NAME: _OTHER_BUILD,
    ToolkitSource.REQUIREMENT: "it is installed with other libraries than it was built with",
}
_NAMING = (ToolkitSource.LABEL, ToolkitSource.NAME)
_OF_THE_BUILD = (ToolkitSource.LABEL, ToolkitSource.NAME, ToolkitSource.FILE)


@check
def cuda_versions_differ(
    package: Package, linkage: Linkage, stated: StatedToolkits
) -> Iterator[Finding]:
    """Two sources of a package state different CUDA versions.

    Its version label (``+cu126``), its name (``-cu12``), the files that its build generated
    (``torch/version.py``; the profile's table ``[probes.builds]`` names them, and none of them is
    run), the NVIDIA wheels that it requires and the libraries that its objects need may each state
    a version. All are compared, and each problem names two of them. Minor versions are compared if
    both sources state one. A package that names no version may ship libraries for several versions
    on purpose: each process must then load libraries of only one version, and a library with a
    version in its own name (``libdemo_cuda118.so``) must need libraries of that version.

    Why: the toolkit's libraries work only with those of their own major version; a process that
    loads two has two runtimes, which share the memory of a GPU, but not kernels, symbols, errors or
    the handles of libraries such as cuBLAS; and a requirement of the other version installs
    gigabytes that nothing loads instead of the needed libraries. Users compile extensions for the
    version that a package reports.
    Fix: build everything against one toolkit, from a clean build folder, and derive label,
    requirements and generated files from it.
    Level: other libraries are installed than the package needs.
    """
    yield from _judge_platform(Platform.CUDA, package, linkage, stated)
    for loading in find_loadings(linkage):
        yield from _compare_within(loading, linkage.layout.shorten_label)


@check
def rocm_versions_differ(
    package: Package, linkage: Linkage, stated: StatedToolkits
) -> Iterator[Finding]:
    """Two sources of a package state different ROCm versions.

    This is the check cuda-versions-differ for the label ``+rocm6.4``, the ``hip`` and ``rocm`` in
    files that the build generated, exact requirements of AMD's wheels, and libamdhip64, whose
    number is ROCm's major version. HIP's version numbers count as ROCm's; from ROCm 7.9 on only
    their major versions are compared.

    Why: a library of another major version is not found, or lacks functions; users choose other
    packages by the version that this one reports.
    Fix: build everything against one ROCm, and derive label, requirements and generated files from
    it.
    Level: other libraries are installed than the package needs.
    """
    yield from _judge_platform(Platform.ROCM, package, linkage, stated)


def _judge_platform(
    platform: Platform, package: Package, linkage: Linkage, stated: StatedToolkits
) -> Iterator[Finding]:
    """Compare all claims for one platform, and each library with the version in its own name."""
    needed = list(claim_by_libraries(linkage.edges))
    own = [each for each in (*stated.claims, *needed) if each.platform is platform]
    positive = any(each.version for each in own)
    related = positive or (platform is Platform.CUDA and relates_to_cuda(package, linkage))
    if not (related or package.unread or package.malformed):
        raise NotApplicable(f"nothing in it relates to {platform.value}")
    yield from find_unjudged(linkage)
    yield from find_unread(
        package,
        found=positive or bool(linkage.closures or linkage.unjudged),
        absent=f"nothing in it names a {platform.value} version",
        formats=(linkage.format,),
    )
    for path, reason in stated.unread if related else ():
        sentence = f"it may state a {platform.value} version that was not read: {reason}"
        yield NotInspected(path=path, sentence=sentence)
    if not positive:
        raise NotApplicable(f"nothing in it names a {platform.value} version")
    if is_for_cpu(package):  # cuda-in-cpu-build reports everything else
        own = [each for each in own if each.source in _OF_THE_BUILD]
    yield from map(_contradict, find_contradictions(own))
    for item in package.objects:
        names = {need.name.rpartition("/")[2] for need in item.needed}
        for named in claim_by_file_name(item.path):
            if named.platform is platform:
                yield from _hold_against_its_name(named, names)


def _contradict(found: Contradiction) -> Problem:
    """Return the problem of a contradiction, with a sentence that depends on the claim's source."""
    claim, other = found.claim, found.against
    against = f"{other.evidence} says {other.statement}{count_others(found)}"
    if claim.source is ToolkitSource.LIBRARY:
        sentence = (
            f"needs {claim.detail}, of {claim.statement}, while {against}: libraries installed for "
            "one do not include the other"
        )
    elif claim.source is ToolkitSource.FILE:
        sentence = (
            f"says {claim.statement} ({claim.detail}), while {against}: users and build tools "
            "choose other packages, and compile extensions, for the version that the file states"
        )
    else:
        alike = f" (and {found.alike} more)" if found.alike else ""
        sentence = (
            f"{against}, {claim.evidence}{alike} says {claim.statement}: {_RESULTS[claim.source]}"
        )
    cause = next((_name_label(each) for each in (claim, other) if each.source in _NAMING), "")
    return Problem(
        path=claim.path,
        sentence=sentence,
        facts=(claim.source.value, claim.statement),
        cause=cause,
        consequence=cause == OF_CPU_LABEL,
    )


def _name_label(claim: ToolkitClaim) -> str:
    """Return the cause if a label or a name is wrong."""
    return claim.evidence if claim.version else OF_CPU_LABEL


def count_others(found: Contradiction) -> str:
    """Return how many other sources agree with the stronger one: `` (so does 1 more)``."""
    if not found.supporting:
        return ""
    return f" (so {'does' if found.supporting == 1 else 'do'} {found.supporting} more)"


def _hold_against_its_name(named: ToolkitClaim, needed: Iterable[str]) -> Iterator[Problem]:
    """Yield one problem for a library, however many libraries of another version it needs."""
    others: dict[str, list[str]] = {}
    for name in sorted(needed):
        for platform, major in major_of_library(name):
            if platform is named.platform and major != named.version.partition(".")[0]:
                others.setdefault(major, []).append(name)
    for major, names in others.items():
        yield Problem(
            path=named.path,
            sentence=f"is for {named.statement} by {named.evidence}, but needs "
            f"{name_first(names, 2)}, of {named.platform.value} {major}: users who choose "
            "it by its name cannot load it",
            facts=(min(names),),
        )


def _compare_within(loading: Loading, show: Callable[[str], str]) -> Iterator[Problem]:
    """Report the first library of a second CUDA version in one process."""
    seen: dict[int, Edge] = {}
    for edge in loading.edges():
        major = cuda_of_library(edge.needed)
        if major is not None:
            seen.setdefault(major, edge)
    if len(seen) > 1:
        listed = " and ".join(
            f"CUDA {major} ({edge.needed}, needed by {show(edge.path)})"
            for major, edge in sorted(seen.items())
        )
        yield Problem(
            path=loading.root,
            sentence=f"loads {listed}: each of the two runtimes has its own kernels, symbols and "
            "errors, and users install the libraries of both",
            facts=tuple(edge.needed for _, edge in sorted(seen.items())),
        )


# Parts and libraries of a CUDA build, as the build reports them without a GPU.


@check
def cuda_part_missing(
    report: CudaReport, asked: CudaRequest, *, only: Mapping[str, tuple[str, ...]] = {}
) -> Iterator[Finding]:
    """A CUDA build lacks a part that it must have.

    ``parts`` in the profile's table ``[probes.cuda]`` has a Python expression for each part
    (``magma = "torch.cuda.has_magma"``) that must be true, even without a GPU. The option ``only``
    limits parts to some systems, as globs on ``linux-x86_64``. ``version`` in that table is the
    expression for the CUDA version of the build (``torch.version.cuda``): if it is None, the build
    is not for CUDA and is not judged.

    Why: a build that does not find a library continues without it, imports like a good one, and
    fails or is slow only where the part is used, on a GPU.

    Fix: check the build's configuration for that part; make it stop if a part is not found.

    Level: users cannot use a part that the project promises.
    """
    require_question("".join(asked.parts), "parts")
    require_cuda_build(report, asked)
    for name, question in asked.parts.items():
        systems = only.get(name, ("*",))
        if not any(fnmatchcase(report.system, glob) for glob in systems):
            yield Note(sentence=f"{name} is for {' and '.join(systems)} only")
            continue
        answer = find_answer(report, question)
        if answer is None:
            yield find_gap(report, question)
        elif answer.error:
            yield Problem(
                sentence=f"{name}: {question} raises {answer.error}", facts=(name, question)
            )
        elif not answer.value:
            yield Problem(
                sentence=f"the build lacks {name}: {question} is {answer.value!r}",
                facts=(name, question),
            )


@check
def cuda_libraries_disagree(
    report: CudaReport,
    package: Distribution,
    asked: CudaRequest,
    *,
    newer: bool = True,
    expected: Mapping[str, str] = {},
) -> Iterator[Finding]:
    """An NVIDIA library has another version than was built with, installed or pinned.

    This is the check gpu-libraries-disagree for the libraries that an import loads without a GPU:
    they report their versions without a driver. The options are the same, and so is ``compiled`` in
    the profile's table ``[probes.cuda]``. A library that is installed but not loaded by the import
    is compared with the version that the package was built with, and with the pinned version.

    Why: an older library lacks functions and fails at their first use; a library that is not the
    installed one was found in an unintended folder; and the combination is untested.

    Fix: pin the libraries to the versions that the package is built with, and make its search paths
    lead to them first.

    Level: functions are missing, or behave differently than at build time.
    """
    step = report.versions_step
    if step is None:
        if report.step.outcome is not Ending.OK:
            yield find_gap(report, "the version of each library")
            return
        raise NotApplicable("the build is not for CUDA")
    if step.outcome is not Ending.OK:
        what = "and the process then " if step.finished else ""
        yield Problem(
            sentence=f"asking for the versions of NVIDIA's libraries {what}{describe_end(step)}",
            facts=(name_end(step),),
        )
    for sentence in find_unreported(report.versions, asked.compiled) if report.versions else ():
        yield NotInspected(sentence=sentence)
    if not report.versions and step.outcome is Ending.OK:
        raise NotApplicable("the package loads none of NVIDIA's libraries, and none is installed")
    yield from compare_expected(report.versions, expected)
    pins = find_pins(package)
    for each in report.versions:
        pin = pins.get(each.name, "") or each.pinned
        if each.loaded or each.installed:
            yield from compare_versions(each, pin, newer=newer)
        elif each.compiled:
            yield NotInspected(sentence=f"{each.name}: it is neither loaded nor installed")


# Whether device code was made by the toolkit that the package states.


@check
def device_code_of_other_cuda(
    package: Package, stated: StatedToolkits, toolkits: DeviceToolkits
) -> Iterator[Finding]:
    """Device code was made by another CUDA toolkit than the package states.

    Each cubin records the toolkit that assembled it, and each text of PTX the version of the
    language that its toolkit writes. Up to 16 of each kind are decompressed, spread over the whole
    object. These versions are compared with the version label, the name, the files that the build
    generated, the requirements and the libraries that the object needs, or with the version in the
    object's own name (``libdemo_cuda118.so``). A different minor version contradicts only labels
    and generated files. An object is a problem if none of its code fits; code of several toolkits,
    such as that of a vendor's static archive, is noted. NVIDIA's own libraries and loose cubins are
    not judged. If the sources contradict each other, the version that most of them state counts;
    cuda-versions-differ reports the other sources.

    Why: the build found another toolkit than the one it was named after. Its code needs the drivers
    of that toolkit, and users who chose the package for an older driver cannot run it.
    Fix: build from a clean folder, with CUDA_HOME and nvcc of the toolkit that the label names.
    Level: the code fails with the drivers that the label promises. It is a warning if only the
    minor version in a generated file differs.
    """
    if not toolkits.samples:
        raise NotApplicable("no code for NVIDIA's GPUs in the package")
    by_path = {item.path: item for item in package.objects}
    samples = [
        each
        for each in toolkits.samples
        if by_path[each.path].architecture != "cuda"
        and not is_nvidia_library(each.path.rpartition("/")[2])
    ]
    if not samples:
        raise NotApplicable("no object of its own has code for NVIDIA's GPUs")
    yield from find_unread_samples(samples)
    judged, settled = False, leave_outliers_out(stated.claims)
    for sample in samples:
        item = by_path[sample.path]
        claims = list(claim_by_file_name(item.path)) or [*settled, *claim_by_needs(item)]
        claims = [each for each in claims if each.platform is Platform.CUDA and each.version]
        judged = judged or bool(claims)
        if claims:
            yield from _judge_sample(sample, claims)
    if not judged:
        raise NotApplicable("nothing states a CUDA version")


def find_unread_samples(samples: Iterable[ToolkitSample]) -> Iterator[NotInspected]:
    """Report each object that could not be read; other checks report broken code."""
    for each in samples:
        if each.unread:
            sentence = f"its device code could not be read: {each.unread}"
            yield NotInspected(path=each.path, sentence=sentence)


def _judge_sample(sample: ToolkitSample, claims: list[ToolkitClaim]) -> Iterator[Finding]:
    """Compare the toolkit that made the object with the most visible claim that it contradicts."""
    made = [_claim(version, sample) for version, _ in sample.toolkits if version]
    what = f"device code made by CUDA {name_first([*dict.fromkeys(each.version for each in made)])}"
    if not made:  # older toolkits write older PTX, and so do compilers of other vendors
        newest = max(
            (cuda_of_ptx(version) for version, _ in sample.ptx), key=read_numbers, default=""
        )
        made = [_claim(newest, sample)]
        what = f"PTX as CUDA {newest} writes it"
        claims = [each for each in claims if read_numbers(newest) > read_numbers(each.version)]
    against = [each for each in claims if all(_differs(one, each) for one in made)]
    if against:
        claim = min(against, key=rank)
        cause = _name_label(claim) if claim.source in _NAMING else ""
        yield Problem(
            path=sample.path,
            sentence=f"has {what}, while {claim.evidence} says {claim.statement}: it was built "
            "with another toolkit",
            facts=(claim.source.value, claim.statement),
            level=_choose_level(made, claim),
            cause=cause,
            consequence=bool(cause),
        )
    elif len({each.version for each in made}) > 1:
        listed = ", ".join(f"{count} by {version}" for version, count in sample.toolkits)
        if sample.seen < sample.total:
            listed += f"; {sample.seen} of {sample.total} entries inspected"
        yield Note(path=sample.path, sentence=f"has device code of several toolkits ({listed})")


def _claim(version: str, sample: ToolkitSample) -> ToolkitClaim:
    return ToolkitClaim(
        platform=Platform.CUDA,
        version=version,
        source=ToolkitSource.DEVICE_CODE,
        evidence="its device code",
        path=sample.path,
    )


def _differs(made: ToolkitClaim, claim: ToolkitClaim) -> bool:
    """Whether the claims contradict each other; a requirement may install a newer minor version."""
    if claim.source in _OF_THE_BUILD:
        return disagree(made.version, claim.version)
    return made.version.partition(".")[0] != claim.version.partition(".")[0]


def _choose_level(made: list[ToolkitClaim], claim: ToolkitClaim) -> Level:
    majors = {each.version.partition(".")[0] for each in made}
    same_major = claim.version.partition(".")[0] in majors
    stated_in_file = claim.source is ToolkitSource.FILE and not claim.is_label
    return Level.WARNING if same_major and stated_in_file else Level.ERROR


# Whether libraries of NVIDIA that open others of their family at run time find these.

_MOST = 8  # names in a sentence


@check
def family_member_missing(
    linkage: Linkage, package: Package, given: GivenFamilies, target: TargetSystem
) -> Iterator[Finding]:
    """A library of NVIDIA opens another one of its family at run time, and nothing provides it.

    No loader looks for such a library at import: libcudnn.so.9 opens libcudnn_graph.so.9, which
    opens libcudnn_engines_precompiled.so.9; libnvrtc.so.13 opens exactly libnvrtc-builtins.so.13.2.
    The check judges the libraries that the package ships and those that it needs from packages
    that are given with ``--binary-with`` or that this run installs; the strings in a library show
    which others its version opens.
    missing-library reports libraries that are needed by name, as cuBLAS needs cuBLASLt. Plugins
    that users choose (of NCCL, NVSHMEM and cuFile) may be absent. A library that cuFFT, cuSPARSE or
    cuBLASLt opens to compile code at run time (nvJitLink, NVRTC) is a warning.

    Why: the import succeeds, and on a GPU the first convolution ends with
    CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, the first compilation with "failed to open
    libnvrtc-builtins.so.13.2" (pytorch issue 167602).
    Fix: ship all libraries of one version of the family, under their own names and in one folder,
    or require the wheel that has them.
    Level: functions that every user calls fail. It is a warning for functions that few users call,
    and for a package that ships only libcudnn.so.9: its users may have installed the other
    libraries of cuDNN.
    """
    layout = _Layout(linkage=linkage, package=package, target=target)
    openers = list(_find_openers(layout, given))
    unknown = sorted(
        {edge.needed for edge in linkage.edges if edge.resolved is None and edge.may_come_with}
    )
    unknown = [name for name in unknown if must_be_whole(name)]
    if not (openers or unknown or package.unread or package.malformed):
        raise NotApplicable(
            "no library of the package or of a given one opens others of its family"
        )
    yield from find_unloaded(linkage, package)
    if unknown:
        yield NotInspected(
            sentence=f"the libraries that {name_first(unknown, _MOST)} may open are unknown: give "
            "the wheels that provide them (--binary-with), or use --binary-with-requirements"
        )
    for each, row in openers:
        yield from layout.judge(each, row)


def _find_openers(
    layout: _Layout, given: GivenFamilies
) -> Iterator[tuple[FamilyOpener, OpenerRow]]:
    """Yield libraries that open others: the package's, and given ones that it needs or opens."""
    linkage = layout.linkage
    own = [item for item in layout.package.objects if item.format == linkage.format]
    found = [FamilyOpener(label=item.path, item=item) for item in own if _row_of(item)]
    needed = {edge.resolved for edge in (*linkage.edges, *linkage.given_edges)}
    rest = list(given.openers)
    queue = [*found, *(each for each in rest if each.label in needed)]
    for each in queue:
        rest = [other for other in rest if other is not each]
        row = _row_of(each.item)
        if row is not None:
            yield each, row
            names = {name for _, names in find_members(row, each.item) for name in names}
            queue += [other for other in rest if names & {other.item.name, other.item.file_name}]


def _row_of(item: ObjectFile) -> OpenerRow | None:
    return find_opener(item.name) or find_opener(item.file_name)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layout:
    """The names that can be opened on the target."""

    linkage: Linkage
    package: Package
    target: TargetSystem

    def has(self, names: Iterable[str]) -> bool:
        on_windows = self.linkage.format == Format.PE
        spelled = [name.lower() if on_windows else name for name in names]
        if any(name in self.linkage.names or name in self.target.libraries for name in spelled):
            return True
        # cuSPARSE has "libnvJitLink.so" among its strings, and appends CUDA's own version to it.
        bare = {stem_of(name) for name in spelled if name.endswith(".so")}
        known = (name for name in self.linkage.names if not is_grafted_name(name))
        return any(stem_of(name) in bare for name in known)

    def judge(self, each: FamilyOpener, row: OpenerRow) -> Iterator[Finding]:
        """Report libraries that the given library opens but that nothing provides."""
        members = list(find_members(row, each.item))
        yield from self._find_gap(each, row, [member for member, _ in members])
        absent = [
            (member, names[-1] if is_of_family(names[0], each.item.file_name) else names[0])
            for member, names in members
            if not self.has(names)
        ]
        if is_reduced(self.linkage.names):
            return
        alone = row.entrance and len(absent) == len(members) and self._may_count_on_users(each)
        for fatal in (True, False):
            shared = [item for item in absent if item[0].fatal is fatal]
            yield from self._accuse(each, shared, fatal=fatal, alone=alone)

    def _find_gap(
        self, each: FamilyOpener, row: OpenerRow, members: list[OpenedMember]
    ) -> Iterator[NotInspected]:
        """Report a name that may lie in a part of the library that was not searched."""
        path, subject = self._place(each)
        unread = each.item.opened.unread if each.item.opened else ""
        # The names lie together: if one that matters was found, all were.
        whole = any(member.fatal for member in row.members)
        found = any(member.fatal for member in members)
        if unread and whole and not found and not is_whole(row, self.linkage.names):
            subject = subject or "it"
            sentence = f"the libraries that {subject} opens are unknown: {unread}"
            yield NotInspected(path=path, sentence=sentence)

    def _accuse(
        self,
        each: FamilyOpener,
        absent: list[tuple[OpenedMember, str]],
        *,
        fatal: bool,
        alone: bool,
    ) -> Iterator[Finding]:
        path, subject = self._place(each)
        excused = [
            (name, by) for _, name in absent if (by := self._find_possible_provider(name, each))
        ]
        if excused:
            names = name_first([name for name, _ in excused], _MOST)
            head = f"{subject} opens" if subject else "opens"
            whence = f"which {excused[0][1]} may have; give it with --binary-with"
            kind = NotInspected if fatal else Note
            yield kind(path=path, sentence=f"{head} {names}, {whence}")
        missing = [item for item in absent if item[1] not in dict(excused)]
        if missing:
            yield Problem(
                path=path,
                sentence=self._format_problem(subject, missing, alone=alone),
                facts=(missing[0][1],),
                level=Level.ERROR if fatal and not alone else Level.WARNING,
            )

    def _find_possible_provider(self, name: str, opener: FamilyOpener) -> str:
        """Return the packages that were not given and may provide a library; "" for none.

        A library of another family may come indirectly: nvidia-cublas requires nvidia-cuda-nvrtc.
        """
        shippers = find_shippers(name, self.linkage.requirements)
        named = tuple(each for each in shippers if may_have_family(each, name))
        if named or is_of_family(name, opener.item.file_name):
            shippers = named
        found = ", ".join(sorted(shippers))
        return found or ("the package that it is part of" if self.package.claims.partial else "")

    def _place(self, each: FamilyOpener) -> tuple[str, str]:
        """Return the package's file to report, and the opening library ("" if it is this file)."""
        if not each.label.startswith("wheel:"):
            return each.label, ""
        users = [edge.path for edge in self.linkage.edges if edge.resolved == each.label]
        return min(users, default=""), self.linkage.layout.shorten_label(each.label)

    def _may_count_on_users(self, each: FamilyOpener) -> bool:
        """Whether the library is not in a package of NVIDIA: users may have the other members."""
        return not (each.label.startswith("wheel:") or self.package.name.startswith("nvidia"))

    def _format_problem(
        self, subject: str, absent: list[tuple[OpenedMember, str]], *, alone: bool
    ) -> str:
        names = [name for _, name in absent]
        lacks = "neither the package nor a given one provides"
        nowhere = lacks if self.linkage.given else "the package does not provide"
        renamed = self._find_renamed(names)
        there = f" (there is {renamed}, which is not the name that it opens)" if renamed else ""
        head = f"{subject} opens" if subject else "opens"
        sentence = (
            f"{head} {name_first(names, _MOST)} at run time, which "
            f"{nowhere}{there}: {absent[0][0].without}"
        )
        return f"{sentence}, unless users have them installed" if alone else sentence

    def _find_renamed(self, names: Iterable[str]) -> str:
        """Return the library under a repair tool's name, or in another version; "" for none."""
        wanted = set(map(stem_of, names))
        return min((n for n in self.linkage.names if stem_of(n) in wanted), default="")
