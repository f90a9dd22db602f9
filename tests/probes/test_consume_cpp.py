"""Programs are built against real archives by the host's compilers, whatever these archives do."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks import objects, packages
from binary_checks.checks.consumer import (
    consumer_compilation_fails,
    consumer_configuration_fails,
    consumer_linking_fails,
    consumer_run_fails,
    consumer_search_path,
    other_cxx_abi_links,
    reached_target_absent,
)
from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import (
    Code,
    ConsumerReport,
    ConsumerRequest,
    CppArchive,
    Ending,
    Note,
    NotInspected,
    Problem,
    Stage,
    TranslationUnit,
)
from binary_checks.places import PlaceSettings, choose_sandbox, unpacked
from binary_checks.places.unpacked import UnpackedPlace, find_programs
from binary_checks.probes.consume_cpp.reader import build_consumers
from binary_checks.probes.consume_cpp.tools import find_candidates
from fixtures.build_wheel import build_wheel
from fixtures.consumer_archive import PKG_CONFIG, Change, make_archive
from fixtures.environments import PURE
from fixtures.values import say

pytestmark = pytest.mark.slow

VARIANTS = [f"{kind}-{deps}-deps" for kind in ("shared", "static") for deps in ("with", "without")]
MEASURE = """
#include <demo/demo.h>
#include <cstdio>
int main() {
  std::printf("%d\\n", demo::measure("four"));
  return demo::threads() > 0 ? 0 : 1;
}
"""
UNIT = TranslationUnit(source=Code(MEASURE), prints="4", refuses=("_ZN4demo7measure*",))
REQUEST = ConsumerRequest(units={"measure": UNIT})
CONFIG = "lib/cmake/Demo/DemoConfig.cmake"


@pytest.fixture(autouse=True)
def tools() -> None:
    try:
        find_candidates(os.environ)
    except Unavailable as lack:
        pytest.skip(str(lack))


def build(
    archive: Path,
    request: ConsumerRequest = REQUEST,
    timeout: float = 120,
    sandbox: str = "auto",
) -> ConsumerReport:
    """Build against the archive, in a place that is gone afterwards."""
    package = read(archive)
    box = choose_sandbox(sandbox)
    settings = PlaceSettings(python=Path(sys.executable), timeout=timeout, sandbox=box)
    with UnpackedPlace(settings) as place:
        report = build_consumers(place, package, request, objects)
        folder = place.folder
    assert not folder.exists()
    return report


def read(archive: Path) -> CppArchive:
    package = packages.open_package(archive, objects)
    assert isinstance(package, CppArchive)
    return package


def judge(report: ConsumerReport, archive: Path) -> dict[str, list[Any]]:
    """What each check finds, without its notes."""
    package = read(archive)
    found: dict[str, Any] = {
        "configuration": consumer_configuration_fails(report, package),
        "compilation": consumer_compilation_fails(report),
        "linking": consumer_linking_fails(report, package),
        "run": consumer_run_fails(report, package),
        "path": consumer_search_path(report),
        "targets": reached_target_absent(report),
    }
    if any(unit.refuses for unit in report.units):
        found["abi"] = other_cxx_abi_links(report)
    kept = {name: [f for f in rows if not isinstance(f, Note)] for name, rows in found.items()}
    return {name: rows for name, rows in kept.items() if rows}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes an archive, or gives the one that was made before."""
    made: dict[tuple[str, int | None], Path] = {}

    def make(variant: str, abi: int | None = None) -> Path:
        if (variant, abi) not in made:
            folder = tmp_path_factory.mktemp("archive")
            made[variant, abi] = make_archive(folder, variant, abi=abi)
        return made[variant, abi]

    return make


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_healthy_archive_is_fit(variant: str, archives: Callable[..., Path]) -> None:
    report = build(archives(variant))
    assert judge(report, archives(variant)) == {}
    example, measure = report.units
    assert [each.last.printed for each in example.builds] == ["1.2.3", "1.2.3"]
    assert [each.last.printed for each in measure.builds] == ["4", "4"]
    assert measure.other_abi is not None
    assert [name[:16] for name in measure.other_abi.last.undefined] == ["_ZN4demo7measure"]
    assert CONFIG in example.reads
    linking = variant.partition("-")[0].upper()
    kinds = {each.name: (each.kind, each.is_absent) for each in example.targets}
    assert kinds["Demo::demo"] == (f"{linking}_LIBRARY", False)


@pytest.mark.parametrize("variant", ["shared-with-deps", "static-without-deps"])
def test_an_archive_of_the_old_abi_refuses_the_new_one(
    variant: str, archives: Callable[..., Path]
) -> None:
    archive = archives(variant, abi=0)
    report = build(archive)
    assert judge(report, archive) == {}
    other = report.units[1].other_abi
    assert other is not None
    assert other.flag == "-D_GLIBCXX_USE_CXX11_ABI=1"
    assert all("__cxx11" in name for name in other.last.undefined)


@pytest.fixture(scope="module")
def archive(archives: Callable[..., Path]) -> Path:
    return archives("shared-with-deps")


@pytest.fixture
def only(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Leaves nothing on PATH but some programs, and returns its folder."""
    assert archive, "it is built before"

    def only(*names: str) -> Path:
        tools = tmp_path / "usr" / "bin"
        tools.mkdir(parents=True)
        for name in (*names, *(["bwrap"] if shutil.which("bwrap") else [])):
            found = shutil.which(name) or str(find_programs((name,), os.environ)[0])
            (tools / name).symlink_to(found)
        monkeypatch.setenv("PATH", str(tools))
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setattr(unpacked, "OWN_FOLDER", tools)
        return tools

    return only


def test_without_the_sandbox_it_is_the_same(archive: Path) -> None:
    assert judge(build(archive, sandbox="off"), archive) == {}


def test_without_ninja_it_is_built_by_make(archive: Path, only: Callable[..., Path]) -> None:
    if not find_programs(("make",), os.environ):
        pytest.skip("no make on PATH")
    only("cmake", "make", "c++")
    report = build(archive)
    assert report.tools.generator == "Unix Makefiles"
    assert judge(report, archive) == {}


def edit(path: str, old: str, new: str) -> Change:
    def change(prefix: Path) -> None:
        text = (prefix / path).read_text()
        assert old in text
        (prefix / path).write_text(text.replace(old, new))

    return change


def append(text: str) -> Change:
    def change(prefix: Path) -> None:
        with (prefix / CONFIG).open("a") as file:
            file.write(text)

    return change


def remove(path: str) -> Change:
    return lambda prefix: (prefix / path).unlink()


def put_module(prefix: Path) -> None:
    (prefix / "lib/pkgconfig").mkdir()
    (prefix / "lib/pkgconfig/demo.pc").write_text(PKG_CONFIG)


NEIGHBOUR = """
add_library(Demo::gone STATIC IMPORTED)
set_target_properties(Demo::gone PROPERTIES IMPORTED_LOCATION
  "${CMAKE_CURRENT_LIST_DIR}/../../libgone.a")
"""
FAULTS: Mapping[str, tuple[Change, str, str]] = {
    "a library is gone": (
        remove("lib/libdemo.so"),
        "configuration",
        "but this file does not exist",
    ),
    "a header is gone": (
        edit("include/demo/demo.h", "<string>", "<demo/gone.h>"),
        "compilation",
        "include/demo/demo.h:2:10: fatal error: demo/gone.h: No such file or directory",
    ),
    "what the library needs is gone": (
        lambda prefix: (prefix / "lib/libdemo.so").write_bytes(b"\x7fELF"),
        "linking",
        "libdemo.so",
    ),
    "a target of nothing": (append(NEIGHBOUR), "targets", "defines the target Demo::gone for it"),
    "a directory of anybody": (
        append('target_link_options(Demo::demo INTERFACE "-Wl,-rpath,/tmp/lib")\n'),
        "path",
        "anyone who can write there",
    ),
    "the package says that it is not found": (
        append("set(Demo_FOUND FALSE)\n"),
        "configuration",
        "Demo",
    ),
    "another language": (append("enable_language(Nonesuch)\n"), "configuration", "Nonesuch"),
}


@pytest.mark.parametrize("change, check, reason", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_archive_is_found(
    change: Change, check: str, reason: str, tmp_path: Path
) -> None:
    archive = make_archive(tmp_path, "shared-with-deps", change=change)
    found = judge(build(archive), archive)
    texts = [each if isinstance(each, str) else each.sentence for each in found[check]]
    assert len(texts) == 1
    assert reason in texts[0]
    assert str(tmp_path) not in texts[0]


def test_an_archive_without_dependencies_that_this_host_lacks_is_not_inspected(
    tmp_path: Path,
) -> None:
    lacking = append("include(CMakeFindDependencyMacro)\nfind_dependency(Nonesuch)\n")
    archive = make_archive(tmp_path, "shared-without-deps", change=lacking)
    found = judge(build(archive), archive)
    assert all(isinstance(each, NotInspected) for rows in found.values() for each in rows)
    assert "comes without Nonesuch, and this host has none" in found["configuration"][0].sentence


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config on PATH")
def test_a_program_is_built_by_what_pkg_config_says_unless_it_is_of_another_machine(
    tmp_path: Path,
) -> None:
    archive = make_archive(tmp_path, "shared-with-deps", change=put_module)
    report = build(archive, ConsumerRequest())
    last = report.units[-1]
    assert (last.name, last.builds[0].last.outcome) == ("pkg-config demo", Ending.OK)

    def put_absolute(prefix: Path) -> None:
        put_module(prefix)
        edit("lib/pkgconfig/demo.pc", "${pcfiledir}/../..", "/usr/local/demo")(prefix)

    archive = make_archive(tmp_path / "other", "shared-with-deps", change=put_absolute)
    last = build(archive, ConsumerRequest()).units[-1]
    assert last.builds[0].last.stage is Stage.LINK
    assert "cannot find -ldemo" in last.builds[0].last.message


LOOP = "while(TRUE)\nendwhile()\n"
ESCAPES = """
execute_process(COMMAND sh -c "echo x > {outside}; echo x > ${{CMAKE_CURRENT_LIST_DIR}}/own")
file(WRITE {outside} "x")
"""


def test_a_package_that_never_ends_is_stopped(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, "shared-with-deps", change=append(LOOP))
    found = judge(build(archive, timeout=4), archive)
    assert say(found["configuration"][1:]) == [
        "example Demo is not configured: it does not end within 4 s"
    ]
    assert "find_package(Demo) hung for 4 s before" in found["configuration"][0].sentence


def test_a_package_that_writes_elsewhere_writes_nothing(tmp_path: Path) -> None:
    if not choose_sandbox("auto").holds:
        pytest.skip("no sandbox holds here")
    outside = Path.home() / "binary-checks-was-here"
    text = ESCAPES.format(outside=outside)
    archive = make_archive(tmp_path, "shared-with-deps", change=append(text))
    found = judge(build(archive), archive)
    assert not outside.exists()
    assert "Read-only file system" in str(found) or "No such file or directory" in str(found)


HANGS = "#include <unistd.h>\nint main() { sleep(600); }\n"
FORKS = "#include <unistd.h>\nint main() { for (;;) fork(); }\n"
PRINTS = '#include <cstdio>\nint main() { for (;;) std::puts("x"); }\n'
KILLS = "#include <signal.h>\nint main() { kill(-1, SIGKILL); }\n"
DEEP = "template <int N> struct A : A<N + 1> {};\nA<0> a;\nint main() {}\n"


@pytest.mark.parametrize(
    "source, check",
    [(HANGS, "run"), (FORKS, "run"), (PRINTS, "run"), (KILLS, "run"), (DEEP, "compilation")],
    ids=["hangs", "forks", "prints", "kills", "never compiles"],
)
def test_a_program_that_misbehaves_is_one_problem(source: str, check: str, archive: Path) -> None:
    if not choose_sandbox("auto").holds:
        pytest.skip("no sandbox holds here")
    unit = TranslationUnit(source=Code(source))
    report = build(archive, ConsumerRequest(units={"odd": unit}), timeout=6)
    found = judge(report, archive)[check]
    said = [each.sentence for each in found if isinstance(each, Problem)]
    assert 1 <= len(said) <= 2
    assert all(each.startswith("odd") for each in said)


BROKEN: Mapping[str, tuple[str, str]] = {
    "fails": ("echo 'x: error: no licence'; exit 1", "no licence"),
    "crashes": ("kill -SEGV $$", "SIGSEGV"),
    "never ends": ("sleep 600", "does not end within 5 s"),
    "builds nothing": ("exit 0", "cannot be run"),
}


@pytest.mark.parametrize("script, reason", BROKEN.values(), ids=BROKEN)
def test_a_compiler_that_fails_on_an_empty_program_is_the_hosts_fault(
    script: str, reason: str, archive: Path, only: Callable[..., Path]
) -> None:
    compiler = only("cmake", "ninja") / "c++"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    with pytest.raises(GatherError, match=f"no C.. compiler builds an empty program.*{reason}"):
        build(archive, timeout=5)


LACKS = {
    ("cmake", "ninja"): r"no C\+\+ compiler \(c\+\+, g\+\+, clang\+\+\); install g\+\+ or clang",
    ("c++", "ninja"): "no cmake; install it",
    ("c++", "cmake"): "neither ninja nor make; install one",
}


@pytest.mark.parametrize("names, reason", LACKS.items(), ids=["compiler", "cmake", "ninja"])
def test_what_is_missing_is_named(
    names: tuple[str, ...], reason: str, archive: Path, only: Callable[..., Path]
) -> None:
    only(*names)
    with pytest.raises(Unavailable, match=f"on PATH there is {reason}"):
        build(archive)


def test_a_program_that_is_not_on_path_is_taken_from_a_wheel_or_named(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    folder = "nvidia/cu13"
    programs = {f"{folder}/bin/{name}": "#!/bin/sh\n" for name in ("nvcc", "nonesuch")}
    wheel = build_wheel(
        tmp_path, name="tools", tags=PURE, members={**programs, f"{folder}/lib/libx.so.1": ""}
    )
    needs = {"*": ("nvcc", "nonesuch")}
    toolkits = {"*": (Code(f"tools @ {wheel.as_uri()}"),)}
    report = build(archive, ConsumerRequest(programs=needs, toolkits=toolkits))
    assert {step.outcome for unit in report.units if (step := unit.configured)} == {Ending.OK}
    for other in ({"cu13?": (Code("tools"),)}, {}):
        with pytest.raises(Unavailable, match="no nonesuch, which this variant needs"):
            build(archive, ConsumerRequest(programs={"*": ("nonesuch",)}, toolkits=other))


def test_a_library_of_the_host_that_the_package_finds_is_not_linked_for_its_own_sake(
    tmp_path: Path,
) -> None:
    """CUDA's RDMA library needs others, and its target is there whenever a toolkit is found."""
    foreign = tmp_path / "host" / "libforeign.so"
    foreign.parent.mkdir()
    foreign.write_text("no library")
    lines = (
        "add_library(Host::foreign UNKNOWN IMPORTED)\n"
        f"set_target_properties(Host::foreign PROPERTIES IMPORTED_LOCATION {foreign})\n"
    )

    archive = make_archive(tmp_path / "built", "shared-with-deps", change=append(lines))
    assert judge(build(archive), archive) == {}
    link = "TARGET Demo::demo APPEND PROPERTY INTERFACE_LINK_LIBRARIES Host::foreign"
    change = append(f"{lines}set_property({link})\n")
    linked = make_archive(tmp_path / "linked", "shared-with-deps", change=change)
    assert judge(build(linked), linked) != {}
