"""Wheels in real containers: what the build machine's own system hides shows on another one."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine, judge
from binary_checks.errors import GatherError
from binary_checks.examination.judging import Verdict
from binary_checks.model import Ending, LoadReport, Outcome, read_place
from binary_checks.places import ImagePlace, Limits, PlaceSettings, Sandbox, installers
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.clean_roots import demand_engine, demand_image
from fixtures.environments import PURE, PYTHON, find_interpreters, read_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheels are for x86_64"),
]
SYSTEMS = {"bullseye-python": "glibc 2.31", "trixie-python": "glibc 2.41"}
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
    """The reference of an image with a Python of its own."""
    return demand_image(str(request.param))


def libc_of(image: str) -> str:
    return next(libc for name, libc in SYSTEMS.items() if name in image)


def title(image: str) -> str:
    return f"image {image} ({libc_of(image)})"


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


def try_on(wheel: Path, image: str, **settings: Any) -> dict[str, Verdict]:
    """The verdicts of the checks that run it, by id."""
    with examine(wheel, run=True, place=f"image:{image}", **settings) as examination:
        return {verdict.check: verdict for verdict in judge(examination)}


def test_a_healthy_module_for_every_python_is_imported_on_both(tmp_path: Path, image: str) -> None:
    found = try_on(compile_wheel(tmp_path), image)
    for check in ("import-fails", "extension-fails-to-load", "object-does-not-load"):
        assert found[check].outcome is Outcome.PASSED
    (gap,) = found["image-newer-than-tag"].not_inspected
    libc = libc_of(image)
    assert gap.sentence == (
        f"manylinux_2_28 on {libc}: not inspected below {libc.partition(' ')[2]}"
    )


def test_what_needs_a_new_glibc_fails_on_an_old_one_alone(tmp_path: Path, image: str) -> None:
    version = str(os.confstr("CS_GNU_LIBC_VERSION")).partition(" ")[2]
    if tuple(map(int, version.split("."))) < (2, 36):
        pytest.skip(f"this host builds for glibc {version}, and only 2.36 has arc4random")
    found = try_on(compile_wheel(tmp_path, *NEW), image)
    outcome = Outcome.FAILED if "bullseye" in image else Outcome.PASSED
    for check in ("import-fails", "object-does-not-load"):
        assert found[check].outcome is outcome
    if "bullseye" in image:
        (problem,) = found["object-does-not-load"].problems
        assert problem.sentence == (
            f"does not load on {title(image)}: "
            "libc.so.6 of that system does not define GLIBC_2.36, which it needs"
        )


def test_numpy_passes_the_load_probe_on_both_whichever_python_there_is(
    tmp_path: Path, image: str
) -> None:
    wheel = download(tmp_path, "numpy", "2.2.6", "3.11")
    found = try_on(wheel, image)
    assert found["object-does-not-load"].outcome is Outcome.PASSED
    # By a Python 3.11 of this host, if that runs there: the image's own are others.
    assert found["import-fails"].outcome in (Outcome.PASSED, Outcome.NOT_INSPECTED)
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
    assert f"does not load on {title(image)}: libxcb.so.1 is not found there" in sentences
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
    found = try_on(wheel, image, companions=[other])
    assert found["import-fails"].outcome is Outcome.PASSED


def open_place(image: str, **sandbox: Any) -> ImagePlace:
    settings = PlaceSettings(
        name=read_place(f"image:{image}"),
        python=PYTHON,
        timeout=60,
        sandbox=Sandbox(contained=True, **sandbox),
    )
    return ImagePlace(settings)


def test_what_an_import_of_it_loads_is_the_package_s(tmp_path: Path, image: str) -> None:
    wheel = read_wheel(compile_wheel(tmp_path))
    with open_place(image) as place:
        assert place.install(wheel) is None
        (step,) = import_each(place, ("demo",)).steps
        assert (step.outcome, step.origin) == (Ending.OK, "demo.abi3.so")
        assert step.origin_sha256 == wheel.members[0].sha256
        (answer,) = place.resolve(wheel, ["lib/python3.8/site-packages/demo.abi3.so"])
        assert "undefined symbol: PyModule_Create2\t(lib/python3.8/site-packages/demo" in (
            answer.complaints
        )


def test_a_package_in_an_image_is_judged_where_it_lies(tmp_path: Path) -> None:
    """The image is Debian's, with numpy where its Python looks for packages."""
    base, engine = demand_image("bullseye-python"), demand_engine()
    wheel = download(tmp_path, "numpy", "1.26.4", "3.9")
    site = tmp_path / "root/usr/local/lib/python3.9/dist-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    reference = "localhost/binary-checks/with-numpy:test"
    name = "binary-checks-with-numpy"
    with suppress(GatherError):
        engine.ask("rm", "--force", name)
    engine.ask("create", "--name", name, base, "true")
    try:
        engine.ask("cp", f"{tmp_path}/root/usr/local/.", f"{name}:/usr/local")
        engine.ask("commit", name, reference, seconds=300)
    finally:
        engine.ask("rm", "--force", name)
    with examine("installed:numpy", run=True, place=f"image:{reference}") as examination:
        found = {verdict.check: verdict for verdict in judge(examination)}
        report = examination.get(LoadReport)
        assert "with-numpy" in examination.facts.ran_on
    for check in ("import-fails", "extension-fails-to-load", "object-does-not-load"):
        assert found[check].outcome is Outcome.PASSED, found[check]
    assert len(report.loaded) > 10


def test_a_python_of_this_host_is_mounted_where_it_runs(tmp_path: Path) -> None:
    place = f"image:{demand_image('bookworm')}"
    with examine(compile_wheel(tmp_path), run=True, place=place) as examination:
        found = {verdict.check: verdict for verdict in judge(examination)}
        report = examination.get(LoadReport)
    (step,) = found["import-fails"].not_inspected or [None]
    if step is not None:
        pytest.skip(step.sentence)  # it is linked with something that this system has not
    assert found["import-fails"].outcome is Outcome.PASSED
    assert not [fault for fault in report.faults if fault.name.startswith("libpython")]


def lay_managed(folder: Path, python: Path) -> tuple[int, int]:
    """Lay a Python of this host as uv lays its own, and return its version."""
    asked = "import sys; print(*sys.version_info[:3], sys.base_prefix)"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    major, minor, patch, base = done.stdout.split()
    own = folder / f"cpython-{major}.{minor}.{patch}-linux-x86_64-gnu"
    for name in ("bin", "lib"):
        (own / name).mkdir(parents=True)
    program = own / "bin" / f"python{major}.{minor}"
    shutil.copy2(Path(base, "bin", program.name), program)
    for path in (*Path(base, "lib").glob("libpython3*.so*"), Path(base, "lib", program.name)):
        (own / "lib" / path.name).symlink_to(path)
    patchelf = shutil.which("patchelf") or pytest.skip("there is no patchelf here")
    subprocess.run([patchelf, "--set-rpath", "$ORIGIN/../lib", program], check=True)
    return int(major), int(minor)


def test_each_python_of_uv_is_mounted_for_the_wheels_that_claim_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"image:{demand_image('bookworm')}"
    pythons = [each for each in find_interpreters() if "pyenv" in str(each)][-2:]
    if not pythons:
        pytest.skip("no CPython of pyenv's here")
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "pythons"))
    versions = [lay_managed(tmp_path / "pythons", each) for each in pythons]
    for major, minor in versions:
        tag = f"cp{major}{minor}-cp{major}{minor}-manylinux_2_28_x86_64"
        folder = tmp_path / f"{major}.{minor}"
        wheel = build_wheel(folder, members={"demo.py": "import ssl, ctypes\n"}, tags=(tag,))
        with examine(wheel, run=True, place=place) as examination:
            found = {verdict.check: verdict for verdict in judge(examination)}
            assert f"CPython {major}.{minor}." in examination.facts.ran_on
        assert found["import-fails"].outcome is Outcome.PASSED, found["import-fails"]


HOSTILE = {
    "asks_who_it_is": "import os\n"
    "status = open('/proc/self/status').read()\n"
    "assert os.getuid() == 65534 and 'CapEff:\\t0000000000000000' in status\n"
    "assert 'NoNewPrivs:\\t1' in status and 'Seccomp:\\t2' in status\n",
    "writes": "import errno, os\n"
    "for path in ('/x', '/usr/x', '/mnt/package/x', __file__ + '.x', '/mnt/probes/x'):\n"
    "    try: open(path, 'w')\n"
    "    except OSError as error: assert error.errno in (errno.EROFS, errno.EACCES), path\n"
    "    else: raise ValueError(path)\n"
    "open(os.environ['HOME'] + '/x', 'w').write('y')\n",
    "connects": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 5).close()\n",
    "allocates": "x = []\nwhile True: x.append(bytearray(b'1') * (1 << 24))\n",
    "forks": "import os, time\nfor _ in range(2000):\n    if not os.fork(): time.sleep(600)\n",
    "hangs": "import time\ntime.sleep(600)\n",
    "leaves_a_daemon": "import os, time\n"
    "if not os.fork():\n    os.setsid()\n    if not os.fork(): time.sleep(600)\n    os._exit(0)\n",
    "counts_processes": "import os\n"
    "found = [name for name in os.listdir('/proc') if name.isdecimal()]\n"
    "assert len(found) < 8, found\n",
}


def test_a_container_confines_what_runs_in_it(tmp_path: Path) -> None:
    """Each module in its turn: what one left behind is not there for the next."""
    image = demand_image("bullseye-python")
    limits = Limits(processes=50, memory=1 << 30, disk=1 << 24)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        members = {
            f"{name}.py": code.replace("{port}", str(port)) for name, code in HOSTILE.items()
        }
        wheel = read_wheel(build_wheel(tmp_path, name="hostile", tags=PURE, members=members))
        with open_place(image, limits=limits) as place:
            place.require_installed(wheel)
            steps = {}
            for name in HOSTILE:
                place.timeout = 5 if name == "hangs" else 60
                (steps[name],) = import_each(place, (name,)).steps
    outcomes = {name: step.outcome for name, step in steps.items()}
    assert outcomes == {
        "asks_who_it_is": Ending.OK,
        "writes": Ending.OK,
        "connects": Ending.RAISED,
        "allocates": Ending.CRASHED,
        "forks": Ending.RAISED,
        "hangs": Ending.HUNG,
        "leaves_a_daemon": Ending.OK,
        "counts_processes": Ending.OK,
    }
    assert steps["allocates"].detail.startswith("SIGKILL")
    assert steps["hangs"].detail == "5 s at hangs.py:2 in <module>"


def test_another_digest_of_an_image_is_refused() -> None:
    name = demand_image("bullseye-python").rpartition(":")[0]
    other = f"{name}@sha256:{'0' * 64}"
    with open_place(other) as place, pytest.raises(GatherError, match=f"image:{other}"):
        assert place.system
    with open_place(demand_image("bullseye-python")) as place:
        pinned = place.system.pinned
    assert pinned.startswith(f"{name}@sha256:")
    with open_place(pinned) as place:
        assert place.system.libc == "glibc 2.31"


HANGING = "import time\ntime.sleep(600)\n"


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Any]:
    """A run that hangs in a container, with its own folder for temporary files."""
    image = demand_image("bullseye-python")
    wheel = build_wheel(tmp_path, members={"demo.py": HANGING}, tags=PURE)
    (tmp_path / "tmp").mkdir()
    command = (sys.executable, "-m", "binary_checks", wheel, "-m", "runtime")
    process = subprocess.Popen(
        (*command, "--binary-place", f"image:{image}"),
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


def list_containers() -> list[str]:
    shown = demand_engine().ask("ps", "--all", "--format", "{{.Names}}")
    return [name for name in shown.split() if name.startswith("binary_checks-")]


def find_processes(*words: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                said = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if all(word in said for word in words):
                found.append(int(folder.name))
    return found


def find_inside() -> list[int]:
    """The processes that run the probe in the container."""
    return find_processes(b"/mnt/package/bin/python", b"import_name", b"faulthandler")


def wait_until(condition: Callable[[], object]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(condition)


@pytest.mark.parametrize("who", ["asked", "run", "engine", "both"])
def test_nothing_is_left_of_a_run_that_is_ended(hanging: Any, tmp_path: Path, who: str) -> None:
    assert not list_containers()
    wait_until(find_inside)
    engines = find_processes(b"\0run\0", b"binary_checks-") if who in ("engine", "both") else []
    for pid in engines:
        os.kill(pid, signal.SIGKILL)
    if who != "engine":
        hanging.send_signal(signal.SIGINT if who == "asked" else signal.SIGKILL)
    wait_until(lambda: not list_containers() and not find_inside())
    if who == "engine":
        hanging.kill()
    hanging.wait()
    wait_until(lambda: not list_containers())  # the next probe's may have started meanwhile
    if who == "asked":
        assert list((tmp_path / "tmp").iterdir()) == []
