"""nvJitLink's answers about a text of PTX are read, whatever becomes of its process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from shutil import which
from typing import Any

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Ending,
    ProbeAnswer,
    PtxLink,
    PtxLinkReport,
    PtxRequest,
    PtxText,
    PtxTexts,
)
from binary_checks.probes.gpu_compilers.reader import find_kernel, link_all, link_ptx, read_link
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline, within
from tests.probes.gpu_answers import Answering
from tests.probes.test_nvrtc_kernels import head

KERNELS = b"""\
.version 6.3
.target sm_60
.visible .func (.param .b32 func_retval0) _Z3onev(
.param .b64 p
)
{
ret;
}
.visible .entry _Z3two(
)
{
shfl.idx.b32 %r1, %r2, 0, 31;
}
"""


def text(content: bytes = KERNELS, architecture: str = "sm_60") -> PtxText:
    return PtxText(
        path="demo/a.so", offset=64, architecture=architecture, version="6.3", content=content
    )


def read(target: str = "sm_90", **row: Any) -> PtxLink:
    return read_link(text(), {"target": target, **row})


def assembled(stage: str = "assemble", status: int = 4, **row: Any) -> PtxLink:
    return read(stage=stage, status=status, **row)


def test_machine_code_for_the_target_is_what_counts() -> None:
    assert read(head=head(90).hex()) == PtxLink(text=text(), target="sm_90", assembled=True)
    assert read("sm_90a", head=head(90).hex()).assembled
    assert read(head=head(80).hex()).lack == "nvJitLink returns machine code for sm_80"
    assert read(head="00" * 64).lack == "nvJitLink returns no machine code"


def test_an_error_of_the_assembler_is_a_refusal_with_its_line_and_kernel() -> None:
    log = (
        "ptxas application ptx input, line 12; error   : Instruction 'shfl' without '.sync'\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n"
    )
    found = assembled(log=log)
    assert (found.refusal, found.line) == ("Instruction 'shfl' without '.sync'", 12)
    assert (found.kernel, found.lack, found.assembled) == ("_Z3two", "", False)


def test_an_error_about_a_whole_kernel_has_no_line() -> None:
    found = assembled(log="ptxas error   : Entry function 'k' uses too much shared data\n")
    assert (found.refusal, found.line, found.kernel) == (
        "Entry function 'k' uses too much shared data",
        0,
        "",
    )


def test_a_kernel_that_asks_for_more_than_a_gpu_has_is_refused_at_the_link() -> None:
    log = (
        "error   : Undefined reference to 'f' in 'ptx'\n"
        "error   : Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)\n"
    )
    found = assembled("link", 6, log=log)
    assert found.refusal == (
        "Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)"
    )


@pytest.mark.parametrize(
    "log",
    [
        "ptxas fatal   : 'Compile only(-c)' requires PTX ISA .version 3.1 or later\n",
        "ptxas application ptx input, line 9; fatal   : Unsupported .version 9.9; current version"
        " is '9.5'\n",
        "ptxas fatal   : SM version specified by .target is higher than default SM version\n",
        "ptxas fatal   : Program with .target 'sm_90a' cannot be compiled to future architecture\n",
        "ptxas fatal   : PTX with .target 'sm_90a' cannot be compiled for architecture 'sm_90'\n",
        "ptxas fatal   : Memory allocation failure\n",
        "ERROR 1: bad input: does not match type NVJITLINK_INPUT_PTX\n",
        "",
    ],
)
def test_what_the_library_does_not_take_is_no_refusal(log: str) -> None:
    found = assembled(log=log)
    assert (found.refusal, found.assembled) == ("", False)
    assert found.lack.startswith("nvJitLink returns 4")


def test_names_that_another_text_defines_are_for_a_later_link() -> None:
    log = "error   : Undefined reference to 'nvshmemi_device_state_d' in 'ptx'\nERROR 9: complete\n"
    assert assembled("link", 6, log=log).assembled
    assert not assembled("link", 6, log="ERROR 9: complete\n").assembled
    needing = text(b".extern .func f();\n" + KERNELS)
    row = {"target": "sm_90", "stage": "link", "status": 6, "log": "ERROR 1: finish\n"}
    assert read_link(needing, row).assembled
    assert not assembled("cubin", 0, log="0 bytes").assembled


def test_the_kernel_of_a_line_is_the_last_that_begins_before_it() -> None:
    assert find_kernel(KERNELS, 7) == "_Z3onev"
    assert find_kernel(KERNELS, 12) == "_Z3two"
    assert find_kernel(KERNELS, 0) == ""
    assert find_kernel(KERNELS, 99) == "_Z3two"


def test_the_kernel_is_found_in_a_time_that_grows_with_the_text_alone() -> None:
    hostile = b".func (\n" * 200_000  # took minutes
    assert find_kernel(hostile + KERNELS, 200_007) == "_Z3onev"


def answer(outcome: Ending = Ending.OK, detail: str = "", **told: Any) -> ProbeAnswer:
    state = {"state": "finished"} if outcome is Ending.OK else {}
    return ProbeAnswer(answer={**state, "stage": "", **told}, outcome=outcome, detail=detail)


FOUND = answer(library="/env/libnvJitLink.so.13", version="13.5", known=["sm_90", "sm_121"])


def done(*places: tuple[int, int]) -> list[dict[str, Any]]:
    return [
        {"text": index, "target": f"sm_{number}", "head": head(number).hex()}
        for index, number in places
    ]


def link(place: Answering, *texts: PtxText, **asked: Any) -> PtxLinkReport:
    sample = PtxTexts(texts=texts, found=len(texts))
    return link_all(place, PtxRequest(**asked), sample)


def test_each_text_is_linked_for_what_it_reaches() -> None:
    place = Answering(FOUND, answer(links=done((0, 90), (0, 121), (1, 121))))
    found = link(place, text(), text(architecture="sm_120"), text(architecture="sm_130"))
    assert [row["targets"] for row in place.asked[1]["texts"]] == [("sm_90", "sm_121"), ("sm_121",)]
    assert [(each.target, each.assembled) for each in found.links] == [
        ("sm_90", True),
        ("sm_121", True),
        ("sm_121", True),
    ]
    assert (found.version, found.known) == ("13.5", ("sm_90", "sm_121"))
    assert [each.architecture for each in found.untried] == ["sm_130"]


def test_the_profile_may_name_the_targets() -> None:
    place = Answering(FOUND, answer(links=done((0, 121))))
    link(place, text(), targets=("sm_121", "sm_200"))
    assert place.asked[1]["texts"][0]["targets"] == ("sm_121",)


def test_after_a_crash_the_texts_behind_it_are_linked_all_the_same() -> None:
    crash = answer(Ending.CRASHED, "SIGSEGV", links=done((0, 90)), current=[0, "sm_121"])
    place = Answering(FOUND, crash, answer(links=done((0, 90), (0, 121))))
    found = link(place, text(b"first"), text(b"second"))
    assert [(each.text.content, each.target, each.lack) for each in found.links] == [
        (b"first", "sm_90", ""),
        (b"first", "sm_121", "nvJitLink crashes: SIGSEGV"),
        (b"second", "sm_90", ""),
        (b"second", "sm_121", ""),
    ]
    assert found.untried == ()


def test_after_a_hang_no_more_time_is_spent() -> None:
    hang = answer(Ending.HUNG, "60 s", links=[], current=[0, "sm_90"])
    found = link(Answering(FOUND, hang), text(b"first"), text(b"second"))
    assert [each.lack.partition(" (")[0] for each in found.links] == ["nvJitLink hangs: 60 s"]
    assert [each.content for each in found.untried] == [b"second"]


def test_after_some_crashes_the_rest_is_left() -> None:
    crash = answer(Ending.CRASHED, "SIGSEGV", current=[0, "sm_90"])
    found = link(Answering(FOUND, crash, crash, crash), *(text(bytes([n])) for n in range(5)))
    assert (len(found.links), len(found.untried)) == (3, 2)


@pytest.mark.parametrize("current", [None, "x", [7, "sm_90"], [0], [[], ""]])
def test_a_process_that_lies_about_its_work_is_blamed_for_the_first_text(current: object) -> None:
    rows = [{"text": 9}, {"text": "0"}, 5, {"text": None}]
    crash = answer(Ending.CRASHED, "SIGSEGV", links=rows, current=current)
    (found,) = link(Answering(FOUND, crash), text()).links
    assert (found.target, found.lack) == ("sm_90", "nvJitLink crashes: SIGSEGV")


def test_a_text_is_told_by_any_number_that_names_it() -> None:
    row = {"text": 0.0, "target": "sm_90", "head": head(90).hex()}
    (found,) = link(Answering(FOUND, answer(links=[row])), text()).links
    assert found.assembled


def test_texts_that_are_not_answered_for_are_untried() -> None:
    """A library that runs in the probe's own process may have written its end."""
    found = link(Answering(FOUND, answer(links=done((0, 90)))), text(b"first"), text(b"second"))
    assert [each.text.content for each in found.links] == [b"first"]
    assert [each.content for each in found.untried] == [b"second"]


def test_a_library_that_crashes_at_its_start_links_nothing() -> None:
    place = Answering(answer(Ending.CRASHED, "SIGILL", library="/env/libnvJitLink.so.13"))
    found = link(place, text())
    assert (found.step.outcome, found.links) == (Ending.CRASHED, ())
    assert len(found.untried) == 1


def test_without_the_library_nothing_is_asked() -> None:
    with pytest.raises(NotApplicable, match="its environment has no nvJitLink"):
        link(Answering(answer(library="")), text())


SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NAME(name) __nvJitLink##name##_13_1
struct link { char arch[16]; int garbage; };
int NAME(Create)(struct link **h, unsigned n, const char **o) {
  if (strstr(o[0], "=sm_90") != o[0] + 5 && strcmp(o[0], "-arch=sm_121")) return 16;
  *h = calloc(1, sizeof **h);
  strcpy((*h)->arch, o[0] + strlen("-arch=sm_"));
  return 0;
}
int NAME(Destroy)(struct link **h) { free(*h); return 0; }
int NAME(AddData)(struct link *h, int type, const char *text, size_t size, const char *name) {
  if (type != 2 || strlen(text) + 1 != size) return 3;
  if (strstr(text, "HANG")) for (;;) pause();
  if (strstr(text, "CRASH")) abort();
  h->garbage = !!strstr(text, "GARBAGE");
  return strstr(text, "WRONG") ? 4 : 0;
}
static const char log_[] = "ptxas application ptx input, line 1; error   : no\\n";
int NAME(GetErrorLogSize)(void *h, size_t *n) { *n = sizeof log_; return 0; }
int NAME(GetErrorLog)(void *h, char *log) { strcpy(log, log_); return 0; }
int NAME(Complete)(void *h) { return 0; }
int NAME(GetLinkedCubinSize)(void *h, size_t *n) { *n = 64; return 0; }
int NAME(GetLinkedCubin)(struct link *h, char *cubin) {
  static const char start[] = "\\x7f" "ELF\\2\\1\\1\\x41\\x08";
  memset(cubin, 0, 64);
  if (h->garbage) return 0;
  memcpy(cubin, start, 9);
  cubin[18] = (char) 190;
  cubin[49] = (char) atoi(h->arch);
  return 0;
}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    folder = tmp_path_factory.mktemp("nvjitlink")
    (folder / "link.c").write_text(SOURCE, encoding="utf-8")
    library = folder / "libnvJitLink.so.13"
    subprocess.run(("gcc", "-shared", "-fPIC", "-w", "-o", library, folder / "link.c"), check=True)
    members = {"nvidia/lib/libnvJitLink.so.13": library.read_bytes(), "fake.py": ""}
    path = build_wheel(folder, name="fake", tags=PURE, members=members)
    with open_offline(path) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not which("gcc"), reason="needs gcc on Linux")
class TestALibraryThatWasBuilt:
    def link(self, environment: FilledPlace, contents: Sequence[bytes]) -> PtxLinkReport:
        texts = tuple(text(content) for content in contents)
        sample = PtxTexts(texts=texts, found=len(texts))
        return link_ptx(environment, environment.wheel, PtxRequest(), sample)

    def test_links_texts_for_the_targets_that_it_knows(self, environment: FilledPlace) -> None:
        found = self.link(environment, [KERNELS, KERNELS * 20_000])
        assert (found.step.outcome, found.version) == (Ending.OK, "13.1")
        assert found.library == "nvidia/lib/libnvJitLink.so.13"
        assert found.known == ("sm_90", "sm_121")
        assert [each.assembled for each in found.links] == [True] * 4

    def test_refuses_or_returns_garbage(self, environment: FilledPlace) -> None:
        found = self.link(environment, [b"WRONG", b"GARBAGE"])
        assert [(each.refusal, each.lack) for each in found.links] == [
            *[("no", "")] * 2,
            *[("", "nvJitLink returns no machine code")] * 2,
        ]

    def test_crashes_or_hangs(self, environment: FilledPlace) -> None:
        found = self.link(within(environment, 5), [b"CRASH", KERNELS, b"HANG", KERNELS])
        crashed, first, second, hung = (each.lack for each in found.links)
        assert crashed.startswith("nvJitLink crashes: SIGABRT")
        assert hung.startswith("nvJitLink hangs: 5 s")
        assert (first, second) == ("", "")
        assert [each.content for each in found.untried] == [KERNELS]
