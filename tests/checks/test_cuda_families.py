from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.cuda.toolkits import family_member_missing
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.library_names import stem_of
from binary_checks.loaders import simulate
from binary_checks.loaders.required_packages import find_given_families
from binary_checks.model import (
    ElfFile,
    Finding,
    Level,
    Note,
    NotInspected,
    ObjectFile,
    OpenedNames,
    PeFile,
    Problem,
    TargetSystem,
    Wheel,
)
from fixtures.linking import EXTENSION, dll, extension, library, target, windows
from fixtures.values import only, wheel

CUDNN = "nvidia/cudnn/lib"
ENTRANCE = ("adv", "cnn", "graph", "ops")
ENGINES = ("engines_precompiled", "engines_runtime_compiled", "heuristic")


def opener(path: str, *names: str, **fields: Any) -> ElfFile:
    return library(path, opened=OpenedNames(names=names), **fields)


def cudnn(*without: str, folder: str = CUDNN, more: tuple[str, ...] = ()) -> list[ElfFile]:
    """cuDNN 9 as it is published, with the names that its libraries open."""
    parts = [f"libcudnn_{each}.so" for each in (*ENGINES, *more)]
    others = [each for each in (*ENTRANCE, *ENGINES) if each not in ("graph", *without)]
    found = [
        opener(f"{folder}/libcudnn.so.9", *(f"libcudnn_{each}.so" for each in ENTRANCE)),
        *(library(f"{folder}/libcudnn_{each}.so.9") for each in others),
    ]
    graph = opener(f"{folder}/libcudnn_graph.so.9", *parts)
    return found if "graph" in without else [*found, graph]


def nvrtc(folder: str = "demo/lib", name: str = "libnvrtc.so.13") -> ElfFile:
    return opener(f"{folder}/{name}", "libnvrtc-builtins.so.13.2", "libcuda.so.1")


def judge(
    *objects: ObjectFile,
    others: tuple[Wheel, ...] = (),
    requires: tuple[str, ...] = (),
    on: TargetSystem | None = None,
    label: str = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
) -> list[Finding]:
    package, system = wheel(label, objects=objects), on or target()
    linkage = simulate(package, system, others, requires)
    beside = find_given_families(package, others, requires, system)
    return list(family_member_missing(linkage, package, beside, system))


def vendor(*objects: ObjectFile, name: str = "nvidia_cudnn_cu13") -> Wheel:
    return wheel(f"{name}-9.26.0-py3-none-manylinux_2_17_x86_64.whl", objects=objects)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("demo/lib/libother.so", "which the package does not provide: each compilation fails"),
        (
            "demo/lib/libnvrtc-builtins.so.13.5",
            "(there is libnvrtc-builtins.so.13.5, which is not the name that it opens)",
        ),
        (
            "demo/lib/libnvrtc-builtins-07fb3db5.so.13.2",
            "(there is libnvrtc-builtins-07fb3db5.so.13.2, which is not the name that it opens)",
        ),
    ],
)
def test_a_compiler_opens_its_builtins_under_one_name_alone(there: str, said: str) -> None:
    found = only(Problem, judge(nvrtc(), library(there)))
    assert judge(nvrtc(), library("demo/lib/libnvrtc-builtins.so.13.2")) == []
    assert only(Problem, judge(nvrtc(name="libnvrtc-1a2b3c4d.so.13"), library(there)))  # renamed
    assert (found.path, found.level) == ("demo/lib/libnvrtc.so.13", Level.ERROR)
    assert found.sentence.startswith("opens libnvrtc-builtins.so.13.2 at run time")
    assert said in found.sentence


def test_the_vendors_own_wheel_is_judged_alone() -> None:
    label = "nvidia_cudnn_cu13-9.26.0-py3-none-manylinux_2_17_x86_64.whl"
    assert judge(*cudnn(), label=label) == []
    (found,) = judge(*cudnn("engines_precompiled"), label=label)
    assert found == Problem(
        path=f"{CUDNN}/libcudnn_graph.so.9",
        sentence="opens libcudnn_engines_precompiled.so.9 at run time, which the package does not "
        "provide: convolutions and attention fail with CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
        level=Level.ERROR,
    )


def test_what_is_needed_of_a_given_wheel_must_be_whole_there() -> None:
    module = extension("libcudnn.so.9", rpath=(f"$ORIGIN/../{CUDNN}",))
    assert judge(module, others=(vendor(*cudnn()),)) == []
    found = only(Problem, judge(module, others=(vendor(*cudnn("heuristic")),)))
    assert found.level is Level.ERROR
    assert found.sentence.startswith(
        f"wheel:nvidia-cudnn-cu13:{CUDNN}/libcudnn_graph.so.9 opens libcudnn_heuristic.so.9 at run "
        "time, which neither the package nor a given one provides: "
    )
    assert only(Problem, judge(module, others=(vendor(*cudnn("graph")),))).path == EXTENSION
    with pytest.raises(NotApplicable, match="opens others of its family"):
        judge(extension(), others=(vendor(*cudnn("heuristic")),))  # of which nothing is needed


def test_what_a_required_wheel_may_have_is_not_inspected_in_one_line() -> None:
    module = extension("libcudnn.so.9", "libnvrtc.so.13", rpath=(f"$ORIGIN/../{CUDNN}",))
    finding = only(NotInspected, judge(module, requires=("nvidia-cudnn-cu13", "nvidia-cuda-nvrtc")))
    assert "libcudnn.so.9, libnvrtc.so.13 may open are unknown" in finding.sentence
    member = only(NotInspected, judge(nvrtc(), requires=("nvidia-cuda-nvrtc",)))
    assert "nvidia-cuda-nvrtc may have" in member.sentence


def test_another_library_of_the_vendor_brings_no_member_but_perhaps_another_family() -> None:
    """nvidia-cudnn-cu13 requires nvidia-cublas, and that nvidia-cuda-nvrtc."""
    label = "nvidia_cudnn_cu13-9.26.0-py3-none-manylinux_2_17_x86_64.whl"
    assert only(Problem, judge(*cudnn("heuristic"), label=label, requires=("nvidia-cublas",)))
    assert only(NotInspected, judge(*cudnn("heuristic"), label=label, requires=("torch",)))
    engines = opener("demo/lib/libcudnn_engines_precompiled.so.9", "libnvrtc.so.13")
    assert only(Note, judge(engines, requires=("nvidia-cublas",)))
    assert only(Problem, judge(engines)).level is Level.WARNING


def test_where_the_layout_has_all_that_matters_no_string_is_missed() -> None:
    """Of libcudnn_graph.so.9 for aarch64 the strings lie among what looks like code."""
    unread = OpenedNames(unread="9 bytes were not searched")
    parts = [each for each in cudnn("graph", folder="demo") if each.file_name != "libcudnn.so.9"]
    graph = library("demo/libcudnn_graph.so.9", opened=unread)
    assert judge(graph, *parts) == []
    assert judge(library("demo/libcusparse.so.12", opened=unread)) == []  # few call what it opens
    assert [type(each) for each in judge(graph, *parts[:-1])] == [NotInspected]


def test_what_completes_a_name_by_another_version_finds_it() -> None:
    """cuSPARSE 12 opens libnvJitLink.so.13, and has libnvJitLink.so among its strings."""
    sparse = opener("demo/lib/libcusparse.so.12", "libnvJitLink.so")
    assert judge(sparse, library("demo/lib/libnvJitLink.so.13")) == []
    renamed = library("demo/lib/libnvJitLink-1a2b3c4d.so.13")
    assert only(Problem, judge(sparse, renamed)).level is Level.WARNING
    unknown = only(Note, judge(sparse, requires=("nvidia-nvjitlink", "nvidia-cublas")))
    assert unknown.sentence.startswith("opens libnvJitLink.so, which nvidia-nvjitlink may have")


def test_a_part_that_few_call_is_a_warning() -> None:
    """cuDNN 9.1 knows no libcudnn_engines_tensor_ir.so.9, and lacks none."""
    found = only(Problem, judge(*cudnn(more=("engines_tensor_ir",), folder="demo/lib")))
    assert found.level is Level.WARNING
    assert found.sentence.startswith("opens libcudnn_engines_tensor_ir.so.9 at run time")
    assert judge(*cudnn(folder="demo/lib")) == []


def test_cudnn_for_compilation_is_whole_and_a_module_called_like_a_library_is_none() -> None:
    """nvidia-cudnn-jit-cu13 has three libraries, whose strings are those of the others."""
    parts = ("adv", "cnn", "ops", "engines_precompiled", "heuristic")
    assert judge(*cudnn(*parts, folder="nvidia/cudnn_jit/lib")) == []
    with pytest.raises(NotApplicable):
        judge(opener("cuda/bindings/nvrtc.abi3.so", "libnvrtc-builtins.so.13.2"))


def test_the_entrance_alone_counts_on_what_users_installed() -> None:
    """ctranslate2 for Windows has cudnn64_9.dll, and its users cuDNN."""
    names = tuple(f"cudnn_{each}64_9.dll" for each in ENTRANCE)
    entrance = open_dll("demo/cudnn64_9.dll", *names)
    found = only(Problem, judge(entrance, on=windows(), label="demo-1.0-cp311-cp311-win_amd64.whl"))
    assert found.level is Level.WARNING
    assert found.sentence.endswith("unless users have them installed")


def open_dll(path: str, *names: str) -> PeFile:
    return dll(path, "KERNEL32.dll", opened=OpenedNames(names=names))


def test_names_of_windows_are_known_in_any_case() -> None:
    compiler = open_dll("demo/nvrtc64_130_0.dll", "nvrtc-builtins64_135.dll")
    on: Any = {"on": windows(), "label": "demo-1.0-cp311-cp311-win_amd64.whl"}
    assert judge(compiler, dll("demo/NVRTC-builtins64_135.dll"), **on) == []
    found = only(Problem, judge(compiler, dll("demo/nvrtc-builtins64_132.dll"), **on))
    assert "(there is nvrtc-builtins64_132.dll, which" in found.sentence


def test_strings_that_were_not_all_searched_are_said() -> None:
    part = library("demo/libnvrtc.so.13", opened=OpenedNames(unread="9 bytes were not searched"))
    assert judge(part) == [
        NotInspected(
            path=part.path,
            sentence="the libraries that it opens are unknown: 9 bytes were not searched",
        )
    ]
    names = OpenedNames(names=("libnvrtc-builtins.so.13.2",), unread="9 bytes were not searched")
    found = library("demo/libnvrtc.so.13", opened=names)
    assert judge(found, library("demo/libnvrtc-builtins.so.13.2")) == []


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("libnvrtc-builtins.so.13.2", "nvrtc-builtins"),
        ("nvrtc-builtins64_132.dll", "nvrtc-builtins64"),
        ("libnvrtc.alt.so.12", "nvrtc.alt"),
        ("nvrtc64_120_0.alt.dll", "nvrtc64.alt"),
        ("libcudnn_graph-0c5ab1e2.so.9.1.0", "cudnn_graph"),
        ("cudnn64_9.dll", "cudnn64"),
    ],
)
def test_a_stem_is_what_versions_and_repair_tools_leave(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_a_sentence_names_the_first_eight_libraries() -> None:
    names = [f"libcudnn_{letter}_train.so.8" for letter in "abcdefghi"]
    whole, cut = (opener("demo/libcudnn.so.8", *names[:count]) for count in (8, 9))
    listed = ", ".join(names[:8])
    assert only(Problem, judge(whole)).sentence.startswith(f"opens {listed} at run time")
    assert only(Problem, judge(cut)).sentence.startswith(f"opens {listed} and 1 more at run time")
