"""Second opinions on our readers and our simulated loaders, from other libraries and processes."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable, ReadersDisagree
from binary_checks.knowledge.loaded_files import Deviation, compare_report
from binary_checks.model import (
    ExtensionReport,
    Finding,
    Linkage,
    NoOpinion,
    Note,
    NotInspected,
    Package,
    SecondOpinion,
)


@check(enabled=False)
def readers_disagree(opinion: SecondOpinion, package: Package) -> Iterator[Finding]:
    """Another library reads an object file differently: an error, not a problem of the package.

    With ``--binary-crosscheck`` pyelftools and LIEF read each ELF file again, macholib and LIEF
    each Mach-O file, pefile and LIEF each PE image. Facts that both sides know are compared one by
    one: docs/evidence/readers.md has the table. If a library is not installed, crashes, takes too
    long or cannot parse a file, this is reported as "second opinion unavailable", and the item as
    not inspected.

    Why: every other verdict relies on our readers. If another library reads the same bytes
    differently, one of the two is wrong, and a check may pass for the wrong reason.
    Fix: report it, with the package or the file: it is a bug in binary_checks or in the library.
    Until then, do not rely on other checks of this package that use the fact.
    Level: no verdict about the file can be relied on.
    """
    if opinion.disagreements:
        raise ReadersDisagree(
            f"{package.layout.shorten(item.path)}: readers disagree about {item.fact}: "
            f"we read {item.ours}, {item.library} reads {item.theirs}"
            for item in opinion.disagreements
        )
    if not opinion.objects and not opinion.missing:
        raise NotApplicable("no ELF, Mach-O or PE object in the package")
    for missing in opinion.missing:
        if missing.fact:
            yield Note(path=missing.path, sentence=_explain(missing))
        else:
            yield NotInspected(
                path=missing.path, sentence=f"second opinion unavailable: {_explain(missing)}"
            )
    if opinion.compared:
        libraries = ", ".join(opinion.libraries)
        agreed = f"{opinion.compared:,} facts of {opinion.objects:,} objects read the same"
        yield Note(sentence=f"{agreed} in {libraries}")


def _explain(missing: NoOpinion) -> str:
    about = f" on {missing.fact}" if missing.fact else ""
    return f"{missing.library}{about}: {missing.reason}"


@check(enabled=False)
def simulation_differs(
    report: ExtensionReport, linkage: Linkage, package: Package
) -> Iterator[Finding]:
    """A process loads other libraries than our simulated loader expects: an error of ours.

    Off by default: our own tests ask for it. A package whose code loads libraries in a way that
    only running it shows differs, too.

    Why: checks of needed libraries and symbols rely on the simulation.
    Fix: report it, with the package: it is a bug in binary_checks, unless code of the package loads
    the named library.
    Level: static verdicts about the named objects may be wrong.
    """
    findings = tuple(compare_report(report, linkage, {item.path for item in package.objects}))
    if differences := [each for each in findings if isinstance(each, Deviation)]:
        shorten = package.layout.shorten
        raise ReadersDisagree(f"{shorten(each.path)}: {each.sentence}" for each in differences)
    yield from (each for each in findings if isinstance(each, NotInspected))
