"""Imports a package where a stub of NVIDIA's driver refuses to start, and asks it about CUDA."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.cuda import demand_gpu_build, demand_trace_of_gpu
from binary_checks.knowledge.library_names import DRIVER_LIBRARIES, is_driver_function
from binary_checks.model import (
    ElfFile,
    Ending,
    Package,
    RefusedAnswers,
    RefusingDriverReport,
    Step,
)
from binary_checks.model.places import Conditions, Place
from binary_checks.model.requests import CudaRequest
from binary_checks.places.unpacked import find_named, find_programs
from binary_checks.probes.ask_module.reader import (
    demand_module,
    is_without_cuda,
    read_answers,
    read_step,
)
from binary_checks.probes.gpu_host.reader import describe_host, spell_cuda
from binary_checks.probes.stub_driver.source import OPTIONS, REFUSALS, DriverRefusal, write_source

_COMPILERS = ("cc", "gcc", "clang")
_PATIENCE = 60.0  # seconds for a compiler, which needs a tenth of one
_NAMES = tuple(name for name in DRIVER_LIBRARIES if ".so" in name)
_DRIVER = re.compile(r"libcuda\.so\b.*")
_LACKED = re.compile(r"undefined symbol: (?P<name>\w+)")


@gathers(RefusingDriverReport)
def ask_under_refusal(place: Place, package: Package, request: CudaRequest) -> RefusingDriverReport:
    """Ask once under each driver that refuses.

    Raises NotApplicable where the profile names no module or the package says that it is not built
    for CUDA, Unavailable where there is no such driver to be had, or no package installed.
    """
    demand_module(request)
    demand_gpu_build(package)
    try:  # before anything is installed for nothing
        compiler = _find_compiler(place.target.platform, os.environ)
    except Unavailable:
        demand_trace_of_gpu(package)  # where there is a stub the package itself is asked
        raise
    place.demand(package)
    needed = frozenset(_list_imports(package))
    refused: list[RefusedAnswers] = []
    for refusal in REFUSALS:
        hung = [each.state for each in refused if each.step.outcome is Ending.HUNG]
        if hung:  # each may take as long as the profile allows
            refused.append(_leave_out(refusal, request, f"the package hung under {hung[0]}"))
            continue
        library = _compile(compiler, write_source(refusal, needed))
        refused.append(_ask(place, request, refusal, library))
        if is_without_cuda(refused[-1].answers, request.version):
            raise NotApplicable(f"{request.version} says that the build is not for CUDA")
    return RefusingDriverReport(python=place.target.name, refused=tuple(refused))


def _find_compiler(platform: str, environ: Mapping[str, str]) -> Path:
    if sys.platform != "linux" or not platform.startswith("linux"):
        raise Unavailable("a stub of NVIDIA's driver is made on Linux and for it alone")
    found = (*find_named("CC", environ), *find_programs(_COMPILERS, environ))
    if not found:
        raise Unavailable("no C compiler (cc, gcc, clang) to make a stub of NVIDIA's driver with")
    return found[0]


def _list_imports(package: Package) -> Iterator[str]:
    for item in package.objects:
        if isinstance(item, ElfFile):
            yield from item.imports.each_name()


def _compile(compiler: Path, source: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="binary_checks-") as folder:
        target = Path(folder) / "libcuda.so.1"
        (Path(folder) / "driver.c").write_text(source, encoding="ascii")
        try:
            done = subprocess.run(
                (compiler, *OPTIONS, "-o", target.name, "driver.c"),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
            if done.returncode == 0:
                return target.read_bytes()
            why = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
    raise Unavailable(f"{compiler} cannot compile the stub of NVIDIA's driver: {why}")


def _ask(
    place: Place, request: CudaRequest, refusal: DriverRefusal, library: bytes
) -> RefusedAnswers:
    conditions = Conditions(calls=True, bytecode=True, decoys=dict.fromkeys(_NAMES, library))
    host = describe_host(place, conditions)
    if host.cuda != spell_cuda(refusal.cuda) or host.devices:
        why = f"a process loads {place.shown(host.library)}" if host.cuda else host.problem
        return _leave_out(refusal, request, f"the stub of NVIDIA's driver does not answer: {why}")
    told = (request.available, request.devices, request.version, request.use)
    questions = tuple(dict.fromkeys(filter(None, told)))
    asked = {"module": request.module, "questions": questions}
    result = place.run("ask_module", asked, conditions=conditions)
    step = read_step(request.module, result, place)
    answers = read_answers(result, place)
    texts = (step.detail, step.stderr, *(each.error for each in answers))
    return RefusedAnswers(
        state=refusal.state,
        step=step,
        stage=str(result.answer.get("stage", "")),
        answers=answers,
        lack=_find_lack(step, place.shown(host.library), texts),
    )


def _find_lack(step: Step, stub: str, texts: Iterable[str]) -> str:
    """Say why the stub was not what the package met; "" where it was, or nobody can say."""
    for text in texts:
        lacked = _LACKED.search(text)
        if lacked and is_driver_function(lacked["name"]):
            return f"the stub of NVIDIA's driver lacks {lacked['name']}, which the package needs"
    if step.libraries is None:
        return ""
    folder = stub.rpartition("/")[0]
    drivers = [path for path in step.libraries if path.rpartition("/")[2] in _NAMES]
    others = [
        path
        for path in step.libraries
        if _DRIVER.fullmatch(path.rpartition("/")[2]) and path.rpartition("/")[0] != folder
    ]
    if others:
        return f"the package loads {others[0]} by a search path of its own, not the stub"
    if not drivers:
        return "the package opened none of the driver's libraries, so that the stub was not asked"
    return ""


def _leave_out(refusal: DriverRefusal, request: CudaRequest, lack: str) -> RefusedAnswers:
    return RefusedAnswers(state=refusal.state, step=Step(name=request.module), lack=lack)
