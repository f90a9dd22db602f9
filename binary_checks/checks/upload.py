"""Whether PyPI accepts a wheel. Most of these checks are off until a profile asks for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase

from packaging.version import InvalidVersion, Version

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.sanitizers import find_runtimes
from binary_checks.knowledge.upload_rules import read_upload_rules
from binary_checks.model import (
    Finding,
    Format,
    KnownClassifiers,
    Level,
    NotInspected,
    Problem,
    Wheel,
    WheelLike,
    read_requirement,
)
from binary_checks.safe_text import elide
from binary_checks.wording.sentences import bundle

_PRIVATE = "Private :: "
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_PLAIN_LINUX = "linux_"


@check(enabled=False)
def local_version_refused(package: WheelLike) -> Iterator[Finding]:
    """The version has a local label, or a requirement names one.

    Why: PyPI refuses a version such as ``2.15.0+cu126``. No file on PyPI satisfies a requirement
    such as ``torch==2.15.0+cu126``.
    Fix: build without the label, or let ``artifact promote`` take it away; require the public
    version.
    Level: nobody gets a release that was not uploaded, or whose requirements no index has.
    """
    label = package.version.partition("+")[2]
    if label:
        yield Problem(sentence=f"its version has the local label {label}", facts=("Version",))
    for text in package.requires_dist:
        requirement = read_requirement(text)
        for each in requirement.specifier if requirement is not None else ():
            if _has_label(each.version):
                yield Problem(
                    path=f"{package.dist_info}/METADATA",
                    sentence=f"requires {elide(text)}, a local version, which no index for "
                    "everybody has",
                    facts=(text,),
                )


def _has_label(version: str) -> bool:
    try:
        return Version(version.removesuffix(".*")).local is not None
    except InvalidVersion:
        return False


@check(level=Level.WARNING)
def platform_tag_refused(package: Wheel, *, everything: bool = False) -> Iterator[Finding]:
    """PyPI accepts no wheel for this platform.

    By default only tags of plain Linux are judged, and not in versions with a local label and
    development releases, which are for one's own machines or index. The option ``everything``
    judges every platform and every version.

    Why: PyPI refuses ``linux_x86_64``, which promises nothing about the C library, and versions of
    macOS that do not exist.
    Fix: repair the wheel (``auditwheel repair``, ``delocate-wheel``), which gives it such a tag.
    Level: nobody gets a release that was not uploaded, but a project may have an index of its own.
    """
    platforms = {tag.platform for tag in package.tags}
    if everything and package.variant_label:
        label = package.variant_label
        sentence = f"PyPI does not accept the label {label} of a wheel variant in a file name"
        yield Problem(sentence=sentence, facts=(label,))
    if not everything:
        platforms = {each for each in platforms if each.startswith(_PLAIN_LINUX)}
        if not platforms or _is_for_own_index(package.version):
            raise NotApplicable("no platform tag of plain Linux in a release for everybody")
    rules = read_upload_rules()
    for_tests = any(True for item in package.objects for _ in find_runtimes(item))
    for platform in sorted(platforms):
        if not rules.accepts(platform):
            why = ", which names no C library" if platform.startswith(_PLAIN_LINUX) else ""
            yield Problem(
                sentence=f"PyPI does not accept the platform tag {platform}{why}",
                facts=(platform,),
                command=bundle(Format.ELF) if why and not for_tests else "",
            )


def _is_for_own_index(version: str) -> bool:
    """Return whether PyPI refuses the version, or nobody gets it without asking for it."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return True
    return parsed.local is not None or parsed.is_devrelease


@check
def variant_label_undecided(package: Wheel) -> Iterator[Finding]:
    """The file name has the label of a wheel variant, which no released specification defines.

    ``demo-1.0-cp312-cp312-manylinux_2_28_x86_64-cu128.whl`` has the label ``cu128``. PEP 817 and
    PEP 825, both drafts, say what it promises; this check says that it is not decided, and never
    that the wheel is right. All other checks judge the wheel as if it had no label.

    Why: pip and uv refuse the name as they are released, and PyPI refuses the upload.
    Fix: publish a wheel without the label, too.
    Level: a check that decides nothing has no problems.
    """
    if not package.variant_label:
        raise NotApplicable("its file name has no label of a wheel variant")
    yield NotInspected(
        sentence=f"the label {package.variant_label} of a wheel variant: which systems it is for "
        "is undecided (PEP 817 and PEP 825 are drafts)"
    )


@check
def classifier_refused(
    package: WheelLike, known: KnownClassifiers, *, everything: bool = False
) -> Iterator[Finding]:
    """PyPI does not know a classifier.

    The list is that of the library trove-classifiers (``pip install binary-checks[upload]``), or a
    copy of it. A version of something that is in the copy may be newer, and is not inspected.
    Classifiers that begin with ``Private ::`` keep a package from being uploaded on purpose. The
    option ``everything`` judges these, too, and classifiers that PyPI accepted once.

    Why: PyPI refuses the upload.
    Fix: correct ``classifiers`` in pyproject.toml, or update trove-classifiers.
    Level: nobody gets a release that was not uploaded.
    """
    path = f"{package.dist_info}/METADATA"
    headers = (value for key, value in package.metadata if key.lower() == "classifier")
    for name in sorted(set(headers)):
        shown = elide(name)
        if name in known.deprecated or name.startswith(_PRIVATE):
            if not everything:
                continue
        elif name not in known.accepted and not everything and _may_be_newer(name, known.accepted):
            newer = f"the classifier {shown} may be newer than the list of {known.source}"
            yield NotInspected(path=path, sentence=newer)
            continue
        if name in known.deprecated:
            others = " or ".join(known.deprecated[name])
            instead = f"; it has {others}" if others else ""
            sentence = f"PyPI no longer accepts the classifier {shown}{instead}"
        elif name.startswith(_PRIVATE):
            sentence = f"the classifier {shown} keeps PyPI from accepting the package"
        elif name not in known.accepted:
            sentence = f"PyPI does not know the classifier {shown}"
        else:
            continue
        yield Problem(path=path, sentence=sentence, facts=(name,))


@check(enabled=False)
def upload_too_large(
    package: Wheel, *, limit: int = 0, limits: Mapping[str, int] = {}
) -> Iterator[Finding]:
    """The file is larger than PyPI accepts, or its members are compressed more than PyPI accepts.

    The option ``limit`` is in bytes, and is PyPI's usual limit if it is 0; ``limits`` sets others
    by globs on the file name, for a project that may upload larger files.

    Why: PyPI refuses the upload, on the day of the release.
    Fix: split off optional parts, or ask PyPI for a higher limit.
    Level: nobody gets a release that was not uploaded.
    """
    rules = read_upload_rules()
    name = package.path.name
    own = next((most for glob, most in limits.items() if fnmatchcase(name, glob)), limit)
    most = own or rules.largest
    if package.size > most:
        yield Problem(sentence=f"is {package.size} bytes; PyPI accepts {most}", facts=("size",))
    members = sum(each.size for each in package.members)
    if members > max(rules.compressed_from, rules.most_compressed * package.size):
        yield Problem(
            sentence=f"its members have {members} bytes, more than {rules.most_compressed} times "
            "as many as the file, which PyPI takes for a zip bomb",
            facts=("compression",),
        )


def _may_be_newer(name: str, accepted: Collection[str]) -> bool:
    """Return whether a classifier is a version of something of which versions are known."""
    parent, _, last = name.rpartition(" :: ")
    if not _VERSION.fullmatch(last):
        return False
    siblings = (each.rpartition(" :: ") for each in accepted)
    return any(each[0] == parent and _VERSION.fullmatch(each[2]) for each in siblings)
