"""PTX that must still compile on GPUs for which a package has no machine code."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import Ending, Finding, Note, NotInspected, Problem
from binary_checks.model.probes import PtxLink, PtxLinkReport, PtxText, PtxTexts
from binary_checks.wording.step_texts import describe_end

_LONGEST = 5  # digits of an architecture; what a library reports may have thousands


@check
def ptx_assembly_fails(report: PtxLinkReport, sample: PtxTexts) -> Iterator[Finding]:
    """PTX that a package ships does not compile for a GPU that it is meant for.

    The nvJitLink that is installed with the package links its PTX into machine code, for which it
    needs neither a GPU nor a driver: for the newest GPU that this nvJitLink knows of each major
    version from the text's own on, ``a`` code for its own GPU and ``f`` code for its family. The
    smallest and the largest texts are taken until ``bytes`` in the profile's table ``[probes.ptx]``
    is used up, each byte counted once for every target; a text that is too large for all targets is
    linked for the newest alone. ``targets`` there names others, and ``requires`` a distribution
    that has nvJitLink (``nvidia-nvjitlink``) where the package requires none. Anything that this
    nvJitLink does not know is not a problem.

    Why: PTX is all that a package has for later GPUs. The driver compiles it there for the first
    time, with the same assembler, and PTX that it refuses fails only on the user's machine.

    Fix: rewrite the inline assembly, or the source code, behind the line that the message names; do
    not ship PTX with instructions that later GPUs lack.

    Level: on such a GPU the kernels cannot be loaded.
    """
    name = f"nvJitLink {report.version}"
    if report.step.outcome is not Ending.OK:
        yield NotInspected(sentence=f"nvJitLink ({report.library}) {describe_end(report.step)}")
    refused: dict[tuple[PtxText, str], list[PtxLink]] = {}
    for link in report.links:
        if link.refusal:
            refused.setdefault((link.text, link.refusal), []).append(link)
        elif not link.assembled:
            sentence = f"{_describe(link.text)}, for {link.target}: {link.lack}"
            yield NotInspected(path=link.text.path, sentence=sentence)
    for (text, refusal), links in refused.items():
        targets = ", ".join(link.target for link in links)
        where = f" ({_place(links[0])})" if _place(links[0]) else ""
        sentence = f"{_describe(text)} does not compile for {targets}: {refusal}{where}"
        yield Problem(path=text.path, sentence=sentence)
    yield from _tell_gaps(report, sample, name)
    yield from _tell_share(report, sample, name)


def _describe(text: PtxText) -> str:
    member = f" in {text.member}" if text.member else ""
    return f"its PTX for {text.architecture} at offset {text.offset}{member}"


def _place(link: PtxLink) -> str:
    line = f"line {link.line}" if link.line else ""
    return ", ".join(filter(None, (f"in {link.kernel}" if link.kernel else "", line)))


def _tell_gaps(report: PtxLinkReport, sample: PtxTexts, name: str) -> Iterator[Finding]:
    for path, unread in sample.unread:
        plural = "" if unread.count == 1 else "s"
        sentence = f"{unread.count} PTX text{plural}, first at offset {unread.offset}: "
        yield NotInspected(path=path, sentence=sentence + unread.reason)
    if report.untried and report.step.outcome is Ending.OK:
        first = report.untried[0]
        others = f", and {len(report.untried) - 1} more" if len(report.untried) > 1 else ""
        yield NotInspected(
            path=first.path, sentence=f"{_describe(first)}{others}: {name} was not asked about it"
        )


def _tell_share(report: PtxLinkReport, sample: PtxTexts, name: str) -> Iterator[Finding]:
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
    number = target.removeprefix("sm_").rstrip("af")
    return (int(number) if number.isdecimal() and len(number) <= _LONGEST else 0), target
