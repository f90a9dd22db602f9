"""Wheels in real images: what the build machine's own system hides shows on another one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine, judge
from binary_checks.errors import Unavailable
from binary_checks.gather.examination import Examination
from binary_checks.judging import Verdict
from binary_checks.model import Ending, LoadReport, Outcome
from binary_checks.model.place_names import read_place
from binary_checks.model.places import Conditions
from binary_checks.places import PlaceSettings, installers
from binary_checks.places.image_place import ImagePlace
from binary_checks.places.images import find_image
from binary_checks.probes.gpu_host.reader import choose_variables, describe_host
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import PYTHON, demand_sandbox, read_wheel
from fixtures.gpu.driver import make_driver

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux", reason="roots are Linux's"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the wheels are for x86_64"),
]
SYSTEMS = {"bullseye": "image bullseye (glibc 2.31)", "trixie": "image trixie (glibc 2.41)"}
MODULE = """
#define Py_LIMITED_API 0x03080000
#include <Python.h>
%s
static struct PyModuleDef about = {PyModuleDef_HEAD_INIT, "demo", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_demo(void) { %s return PyModule_Create(&about); }
"""
NEW = ("#include <stdlib.h>", "if (arc4random() == 1) return NULL;")  # glibc 2.36 has it


@pytest.fixture(scope="session", params=sorted(SYSTEMS))
def image(request: pytest.FixtureRequest) -> str:
    """An image by name, with the one beside it that has a Python."""
    name = str(request.param)
    try:
        find_image(name)
        find_image(f"{name}-python")
    except Unavailable as error:
        pytest.skip(str(error))
    return name


def compile_wheel(folder: Path, head: str = "", body: str = "", tag: str = "2_28") -> Path:
    """Build a wheel with an extension module for every Python since 3.8."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    source, built = folder / "demo.c", folder / "demo.so"
    source.write_text(MODULE % (head, body))
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([compiler, "-shared", "-fPIC", include, source, "-o", built], check=True)
    members = {"demo.abi3.so": built.read_bytes()}
    return build_wheel(folder, members=members, tags=(f"cp38-abi3-manylinux_{tag}_x86_64",))


def download(folder: Path, name: str, version: str, python: str) -> Path:
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
        *("--only-binary", ":all:", "--python-version", python, "--implementation", "cp"),
        *("--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64"),
        *("--abi", f"cp{python.replace('.', '')}", "--abi", "abi3"),
        *("--dest", str(folder), f"{name}=={version}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{name} {version} cannot be downloaded here")
    return next(folder.glob("*.whl"))


def try_on(wheel: Path, image: str) -> dict[str, Verdict]:
    """The verdicts of the checks that run it, by id."""
    with examine(wheel, run=True, place=f"image:{image}") as examination:
        _demand_sandbox(examination)
        return {verdict.check: verdict for verdict in judge(examination)}


def _demand_sandbox(examination: Examination) -> None:
    sandbox = examination.facts.settings.sandbox
    if sandbox is None or not sandbox.holds:
        pytest.skip("no sandbox works here")


def test_a_healthy_module_for_every_python_is_imported_on_both(tmp_path: Path, image: str) -> None:
    found = try_on(compile_wheel(tmp_path), image)
    for check in ("import-fails", "extension-fails-to-load", "object-does-not-load"):
        assert found[check].outcome is Outcome.PASSED
    (gap,) = found["image-newer-than-tag"].not_inspected
    libc = SYSTEMS[image].partition("(")[2].strip(")")
    assert gap.sentence == (
        f"manylinux_2_28 on {libc}: not inspected below {libc.partition(' ')[2]}"
    )


def test_what_needs_a_new_glibc_fails_on_an_old_one_alone(tmp_path: Path, image: str) -> None:
    version = str(os.confstr("CS_GNU_LIBC_VERSION")).partition(" ")[2]
    if tuple(map(int, version.split("."))) < (2, 36):
        pytest.skip(f"this host builds for glibc {version}, and only 2.36 has arc4random")
    found = try_on(compile_wheel(tmp_path, *NEW), image)
    outcome = Outcome.FAILED if image == "bullseye" else Outcome.PASSED
    for check in ("import-fails", "object-does-not-load"):
        assert found[check].outcome is outcome
    if image == "bullseye":
        (problem,) = found["object-does-not-load"].problems
        assert problem.sentence == (
            "does not load on image bullseye (glibc 2.31): "
            "libc.so.6 there does not define GLIBC_2.36, which it needs"
        )


def test_numpy_passes_the_load_probe_on_both_without_a_python_for_it(
    tmp_path: Path, image: str
) -> None:
    wheel = download(tmp_path, "numpy", "2.2.6", "3.11")
    found = try_on(wheel, image)
    assert found["object-does-not-load"].outcome is Outcome.PASSED
    assert found["import-fails"].outcome is Outcome.NOT_INSPECTED
    with examine(wheel, run=True, place=f"image:{image}") as examination:
        report = examination.get(LoadReport)
    assert len(report.loaded) > 10
    # Each asks for functions of Python's, which only its loader can have said.
    assert {fault.root for fault in report.faults if fault.name.startswith("Py")} == set(
        report.loaded
    )


def test_opencv_lacks_the_libraries_of_a_screen(tmp_path: Path, image: str) -> None:
    found = try_on(download(tmp_path, "opencv-python", "5.0.0.93", "3.9"), image)
    sentences = [problem.sentence for problem in found["object-does-not-load"].problems]
    assert f"does not load on {SYSTEMS[image]}: libxcb.so.1 is not found there" in sentences
    assert found["import-fails"].outcome is Outcome.FAILED


def test_what_it_requires_is_put_beside_it_for_the_images_python(
    tmp_path: Path, image: str
) -> None:
    """The requirement requires the package in turn, which no index has."""
    if installers.find_uv() is None:
        pytest.skip("there is no uv here")
    (tmp_path / "given").mkdir()
    own = "import sys, other\nassert other.value == 1 and sys.prefix == '/mnt/package'\n"
    requires = ("other-for-demo==1.0", "absent-anywhere; python_version < '3.8'")
    wheel = build_wheel(
        tmp_path, members={"demo.py": own}, requires=requires, tags=("py3-none-any",)
    )
    other = build_wheel(
        tmp_path / "given",
        name="other_for_demo",
        members={"other.py": "value = 1\n"},
        requires=("demo",),
        tags=("py3-none-any",),
    )
    with examine(wheel, run=True, place=f"image:{image}", companions=[other]) as examination:
        _demand_sandbox(examination)
        found = {verdict.check: verdict.outcome for verdict in judge(examination)}
    assert found["import-fails"] is Outcome.PASSED


def test_the_sandbox_confines_it_to_the_image(tmp_path: Path, image: str) -> None:
    wheel = read_wheel(compile_wheel(tmp_path))
    with open_image(f"{image}-python") as place:
        assert place.install(wheel) is None
        (step,) = import_each(place, ("demo",)).steps
        assert (step.outcome, step.origin) == (Ending.OK, "demo.abi3.so")
        assert step.origin_sha256 == wheel.members[0].sha256
        (answer,) = place.resolve(wheel, ["lib/python3.8/site-packages/demo.abi3.so"])
        assert "undefined symbol: PyModule_Create2\t(lib/python3.8/site-packages/demo" in (
            answer.complaints
        )


def open_image(name: str) -> ImagePlace:
    settings = PlaceSettings(
        name=read_place(f"image:{name}"), python=PYTHON, timeout=60, sandbox=demand_sandbox("auto")
    )
    return ImagePlace(settings)


def test_probes_for_a_gpu_find_this_hosts_driver_there(tmp_path: Path, image: str) -> None:
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler here")
    with open_image(f"{image}-python") as place:
        assert describe_host(place, Conditions(gpu=True)).library == ""
    with open_image(f"{image}-python") as place:
        variables = choose_variables(make_driver(tmp_path), place)
        assert variables == {"LD_LIBRARY_PATH": "/mnt/driver"}
        host = describe_host(place, Conditions(variables=variables, gpu=True))
    assert (host.library, len(host.devices)) == ("/mnt/driver/libcuda.so.1", 2)


HANGING = "import time\ntime.sleep(600)\n"


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Any]:
    """A run that hangs in the image, with its own folder for temporary files."""
    wheel = build_wheel(tmp_path, members={"demo.py": HANGING}, tags=("py3-none-any",))
    (tmp_path / "tmp").mkdir()
    try:
        find_image("bullseye-python")
    except Unavailable as error:
        pytest.skip(str(error))
    command = (sys.executable, "-m", "binary_checks", wheel, "-m", "runtime")
    process = subprocess.Popen(
        (*command, "--binary-place", "image:bullseye-python"),
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


def _find_inside() -> list[str]:
    """The processes that run the probe in the image."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"/mnt/package/bin/python" in words and b"import_name" in words:
                found.append(folder.name)
    return found


def _wait_until(condition: Any) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(condition)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(
    hanging: Any, tmp_path: Path, number: signal.Signals
) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    _wait_until(_find_inside)
    hanging.send_signal(number)
    hanging.wait()
    _wait_until(lambda: not _find_inside())
    assert Path("/proc/self/mountinfo").read_text() == before
    if number is signal.SIGINT:
        assert list((tmp_path / "tmp").iterdir()) == []
