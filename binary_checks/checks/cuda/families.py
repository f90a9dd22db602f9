"""Whether the libraries of NVIDIA that open others of their family at run time find them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.grafted_names import is_grafted_name
from binary_checks.knowledge.shipped_names import find_shippers
from binary_checks.knowledge.unloaded_objects import find_unloaded
from binary_checks.knowledge.vendor_families import (
    OpenedMember,
    OpenerRow,
    complete_names,
    find_members,
    find_opener,
    is_of_family,
    is_reduced,
    is_whole,
    may_have_family,
    must_be_whole,
    stem_of,
)
from binary_checks.model import (
    Finding,
    Format,
    Level,
    Linkage,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.model.linkage import FamiliesBeside, FamilyOpener
from binary_checks.wording.phrases import name_first

_MOST = 8  # names in a sentence


@check
def family_member_missing(
    linkage: Linkage, package: Package, beside: FamiliesBeside, target: TargetSystem
) -> Iterator[Finding]:
    """A library of NVIDIA opens another one of its family at run time, and nothing provides it.

    No loader looks for such a library: libcudnn.so.9 opens libcudnn_graph.so.9, which opens
    libcudnn_engines_precompiled.so.9; libnvrtc.so.13 opens libnvrtc-builtins.so.13.2, in no other
    version. The check judges the libraries that the package ships and those that it needs from
    the packages given with ``--binary-with``; the strings in a library show which others its
    version opens. missing-library reports libraries that are needed by name, as cuBLAS needs
    cuBLASLt. Plugins that users choose (of NCCL, NVSHMEM and cuFile) may be absent. A library that
    cuFFT, cuSPARSE or cuBLASLt opens to compile code at run time (nvJitLink, NVRTC) is a warning.

    Why: the import succeeds, and on a GPU the first convolution ends with
    CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, the first compilation with "failed to open
    libnvrtc-builtins.so.13.2" (pytorch issue 167602).
    Fix: ship all libraries of one version of the family, under their own names and in one folder,
    or require the wheel that has them.
    Level: functions that every user calls fail. Those that few call are a warning, and so is
    libcudnn.so.9 alone, which a package may ship for users who have installed the rest.
    """
    layout = _Layout(linkage=linkage, package=package, target=target)
    openers = list(_find_openers(layout, beside))
    unknown = sorted(
        {edge.needed for edge in linkage.edges if edge.resolved is None and edge.may_come_with}
    )
    unknown = [name for name in unknown if must_be_whole(name)]
    if not (openers or unknown or package.unread or package.malformed):
        raise NotApplicable("no library in it or in the packages given opens others of its family")
    yield from find_unloaded(linkage, package)
    if unknown:
        yield NotInspected(
            sentence=f"the libraries that {name_first(unknown, _MOST)} may open are unknown: give "
            "the wheels that provide them (--binary-with), or use --binary-with-requirements"
        )
    for each, row in openers:
        yield from layout.judge(each, row)


def _find_openers(
    layout: _Layout, beside: FamiliesBeside
) -> Iterator[tuple[FamilyOpener, OpenerRow]]:
    """The package's own, and those beside it that its objects need, or that one of these opens."""
    linkage = layout.linkage
    own = [item for item in layout.package.objects if item.format == linkage.format]
    found = [FamilyOpener(label=item.path, item=item) for item in own if _row_of(item)]
    needed = {edge.resolved for edge in (*linkage.edges, *linkage.edges_beside)}
    rest = list(beside.openers)
    queue = [*found, *(each for each in rest if each.label in needed)]
    for each in queue:
        rest = [other for other in rest if other is not each]
        row = _row_of(each.item)
        if row is not None:
            yield each, row
            names = {name for _, names in layout.members(each, row) for name in names}
            queue += [other for other in rest if names & {other.item.name, other.item.file_name}]


def _row_of(item: ObjectFile) -> OpenerRow | None:
    return find_opener(item.name) or find_opener(item.file_name)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layout:
    """The names that can be opened on the target."""

    linkage: Linkage
    package: Package
    target: TargetSystem

    def members(
        self, each: FamilyOpener, row: OpenerRow
    ) -> Iterator[tuple[OpenedMember, tuple[str, ...]]]:
        """Each member that the library opens, with the names that it may try."""
        opened = each.item.opened.names if each.item.opened else ()
        for member, name in find_members(row, opened):
            yield member, tuple(complete_names((name,), each.item))

    def has(self, names: Iterable[str]) -> bool:
        on_windows = self.linkage.format == Format.PE
        spelled = [name.lower() if on_windows else name for name in names]
        if any(name in self.linkage.names or name in self.target.libraries for name in spelled):
            return True
        # cuSPARSE has "libnvJitLink.so" among its strings, and completes it by CUDA's own version.
        bare = {stem_of(name) for name in spelled if name.endswith(".so")}
        known = (name for name in self.linkage.names if not is_grafted_name(name))
        return bool(bare) and any(stem_of(name) in bare for name in known)

    def judge(self, each: FamilyOpener, row: OpenerRow) -> Iterator[Finding]:
        """Say of one library which of those that it opens are nowhere."""
        members = list(self.members(each, row))
        yield from self._find_gap(each, row, [member for member, _ in members])
        lost = [
            (member, names[-1] if is_of_family(names[0], each.item.file_name) else names[0])
            for member, names in members
            if not self.has(names)
        ]
        if not lost or is_reduced(self.linkage.names):
            return
        alone = row.entrance and len(lost) == len(members) and self._may_count_on_users(each)
        for fatal in (True, False):
            shared = [item for item in lost if item[0].fatal is fatal]
            yield from self._accuse(each, shared, fatal=fatal, alone=alone)

    def _find_gap(
        self, each: FamilyOpener, row: OpenerRow, members: list[OpenedMember]
    ) -> Iterator[NotInspected]:
        """Say where a name that matters may lie in a part of the library that was not searched."""
        path, subject = self._place(each)
        unread = each.item.opened.unread if each.item.opened else ""
        # The names lie together: whoever has found one that matters has found all.
        whole = any(member.fatal for member in row.members)
        found = any(member.fatal for member in members)
        if unread and whole and not found and not is_whole(row, self.linkage.names):
            subject = subject or "it"
            sentence = f"the libraries that {subject} opens are unknown: {unread}"
            yield NotInspected(path=path, sentence=sentence)

    def _accuse(
        self, each: FamilyOpener, lost: list[tuple[OpenedMember, str]], *, fatal: bool, alone: bool
    ) -> Iterator[Finding]:
        path, subject = self._place(each)
        excused = [(name, by) for _, name in lost if (by := self._find_excuse(name, each))]
        if excused:
            names = name_first([name for name, _ in excused], _MOST)
            head = f"{subject} opens" if subject else "opens"
            whence = f"which {excused[0][1]} may have; give it with --binary-with"
            kind = NotInspected if fatal else Note
            yield kind(path=path, sentence=f"{head} {names}, {whence}")
        missing = [item for item in lost if item[1] not in dict(excused)]
        if missing:
            yield Problem(
                path=path,
                sentence=self._spell(subject, missing, alone=alone),
                level=Level.ERROR if fatal and not alone else Level.WARNING,
            )

    def _find_excuse(self, name: str, opener: FamilyOpener) -> str:
        """What was not given and may have a library; "" where nothing may.

        Of another family it may come in turn: nvidia-cublas requires nvidia-cuda-nvrtc.
        """
        shippers = find_shippers(name, self.linkage.requirements)
        named = tuple(each for each in shippers if may_have_family(each, name))
        if named or is_of_family(name, opener.item.file_name):
            shippers = named
        found = ", ".join(sorted(shippers))
        return found or ("the package that it is part of" if self.package.claims.partial else "")

    def _place(self, each: FamilyOpener) -> tuple[str, str]:
        """A file of the package to blame, and how a sentence begins that goes on "opens"."""
        if not each.label.startswith("wheel:"):
            return each.label, ""
        users = [edge.path for edge in self.linkage.edges if edge.resolved == each.label]
        return min(users, default=""), self.linkage.show(each.label)

    def _may_count_on_users(self, each: FamilyOpener) -> bool:
        """Whether a package that is not the vendor's own ships it."""
        return not (each.label.startswith("wheel:") or self.package.name.startswith("nvidia"))

    def _spell(self, subject: str, lost: list[tuple[OpenedMember, str]], *, alone: bool) -> str:
        names = [name for _, name in lost]
        lacks = "neither the package nor a given one provides"
        nowhere = lacks if self.linkage.given else "the package does not provide"
        renamed = self._find_renamed(names)
        there = f" (there is {renamed}, which is not the name that it opens)" if renamed else ""
        head = f"{subject} opens" if subject else "opens"
        sentence = (
            f"{head} {name_first(names, _MOST)} at run time, which "
            f"{nowhere}{there}: {lost[0][0].without}"
        )
        return f"{sentence}, unless users have them installed" if alone else sentence

    def _find_renamed(self, names: Iterable[str]) -> str:
        """The same library under a repair tool's name, or in another version."""
        wanted = set(map(stem_of, names))
        return min((n for n in self.linkage.names if stem_of(n) in wanted), default="")
