"""Import a package with a stub of NVIDIA's driver that refuses to start, and ask it about CUDA."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.cuda import (
    list_driver_functions,
    require_gpu_build,
    require_trace_of_gpu,
)
from binary_checks.knowledge.library_names import DRIVER_LIBRARIES, is_driver_function
from binary_checks.model import (
    Conditions,
    CudaRequest,
    ElfFile,
    Ending,
    Package,
    Place,
    RefusedAnswers,
    RefusingDriverReport,
    Step,
)
from binary_checks.places.unpacked import find_named, find_programs
from binary_checks.probes.answers import read_step, read_text
from binary_checks.probes.ask_module.reader import is_without_cuda, read_answers, require_module
from binary_checks.probes.gpu_host.reader import describe_host, format_cuda

_COMPILERS = ("cc", "gcc", "clang")
_PATIENCE = 60.0  # seconds for a compiler, which usually takes a tenth of a second
_NAMES = tuple(name for name in DRIVER_LIBRARIES if ".so" in name)
_DRIVER = re.compile(r"libcuda\.so\b.*")
_LACKED = re.compile(r"undefined symbol: (?P<name>\w+)")


@gathers(RefusingDriverReport)
def ask_with_refusing_driver(
    place: Place, package: Package, request: CudaRequest
) -> RefusingDriverReport:
    """Ask the package once with each driver that refuses to start.

    Raises NotApplicable if the profile names no module or the package says that it is built without
    CUDA, Unavailable if the stub cannot be made or the package could not be installed.
    """
    require_module(request)
    require_gpu_build(package)
    try:  # before anything is installed
        compiler = _find_compiler(place.target.platform, os.environ)
    except Unavailable:
        require_trace_of_gpu(package)  # with a stub, the package itself is asked
        raise
    place.require_installed(package)
    imports = (item.imports.each_name() for item in package.objects_of(ElfFile))
    needed = frozenset(chain.from_iterable(imports))
    refused: list[RefusedAnswers] = []
    for refusal in REFUSALS:
        hung = [each.state for each in refused if each.step.outcome is Ending.HUNG]
        if hung:  # each import may take as long as the profile allows
            refused.append(
                _leave_out(refusal, request, f"the package hung with the stub {hung[0]}")
            )
            continue
        library = _compile(compiler, write_source(refusal, needed))
        refused.append(_ask(place, request, refusal, library))
        if is_without_cuda(refused[-1].answers, request.version):
            raise NotApplicable(f"{request.version} says that the build is not for CUDA")
    return RefusingDriverReport(python=place.target.name, refused=tuple(refused))


def _find_compiler(platform: str, environ: Mapping[str, str]) -> Path:
    if sys.platform != "linux" or not platform.startswith("linux"):
        raise Unavailable("the stub of NVIDIA's driver is only built on Linux and for Linux")
    found = (*find_named("CC", environ), *find_programs(_COMPILERS, environ))
    if not found:
        raise Unavailable("no C compiler (cc, gcc, clang) to compile a stub of NVIDIA's driver")
    return found[0]


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
    if host.cuda != format_cuda(refusal.cuda) or host.devices:
        why = f"a process loads {place.shown(host.library)}" if host.cuda else host.problem
        return _leave_out(refusal, request, f"the stub of NVIDIA's driver does not answer: {why}")
    expressions = (request.available, request.devices, request.version, request.use)
    questions = tuple(dict.fromkeys(filter(None, expressions)))
    asked = {"module": request.module, "questions": questions}
    result = place.run("ask_module", asked, conditions=conditions)
    step = read_step(request.module, result, place, calls=True)
    answers = read_answers(result, place)
    texts = (step.detail, step.stderr, *(each.error for each in answers))
    return RefusedAnswers(
        state=refusal.state,
        step=step,
        stage=read_text(result.answer, "stage"),
        answers=answers,
        lack=_explain_unused_stub(step, place.shown(host.library), texts),
    )


def _explain_unused_stub(step: Step, stub: str, texts: Iterable[str]) -> str:
    """Return why the package did not use the stub; "" if it did, or if this is unknown."""
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
        return f"the package loads {others[0]} through its own search path, instead of the stub"
    if not drivers:
        return "the package opened none of the driver's libraries, so the stub was not used"
    return ""


def _leave_out(refusal: DriverRefusal, request: CudaRequest, lack: str) -> RefusedAnswers:
    return RefusedAnswers(state=refusal.state, step=Step(name=request.module), lack=lack)


# The stub's C source: a driver with all functions and without a GPU.
#
# All its libraries are one file under several names. The file needs no C library, so that any Linux
# can load it, and it stays loaded (``nodelete``), which shows that it was used.

OPTIONS = (
    *("-shared", "-fPIC", "-O1", "-w", "-nostdlib", "-ffreestanding", "-fno-stack-protector"),
    *("-Wl,-z,nodelete", "-Wl,-Bsymbolic", "-Wl,--hash-style=both"),
)
"""Options for cc, gcc or clang."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverRefusal:
    """The answers of a stub."""

    state: str  # name of the state in profiles
    status: int  # result of cuInit
    cuda: int  # result of cuDriverGetVersion, 12040 for 12.4
    management: int  # result of nvmlInit
    driver: str  # the version that the management library reports


NEWEST = 20000
"""A CUDA version, as a driver reports it, that is newer than any runtime."""
REFUSALS = (
    DriverRefusal(state="no-device", status=100, cuda=NEWEST, management=0, driver="999.01"),
    # The driver's libraries are of another version than the kernel module, as after an update.
    DriverRefusal(state="driver-mismatch", status=803, cuda=NEWEST, management=18, driver="999.02"),
    # Older than any runtime that uses the driver, which causes cudaErrorInsufficientDriver (35).
    DriverRefusal(state="old-driver", status=100, cuda=10010, management=0, driver="418.39"),
)

# As documented, without an initialised driver all other functions return CUDA_ERROR_NOT_INITIALIZED
# (3), and those of the management library NVML_ERROR_UNINITIALIZED (1).
_TEMPLATE = """\
static int same(const char *one, const char *other)
{
    while (*one && *one == *other) one++, other++;
    return *one == *other;
}
static int copy(char *to, unsigned room, const char *text)
{
    unsigned i = 0;
    if (!to || !room) return 2;
    for (; text[i] && i + 1 < room; i++) to[i] = text[i];
    to[i] = 0;
    return 0;
}
int cuInit(unsigned flags) { return STATUS; }
int cuDriverGetVersion(int *version) { if (!version) return 1; *version = CUDA; return 0; }
static const struct { int status; const char *name, *text; } ERRORS[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
};
static int find_error(int status, const char **text, int name)
{
    unsigned i;
    if (!text) return 1;
    *text = 0;
    for (i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].status == status)
            return *text = name ? ERRORS[i].name : ERRORS[i].text, 0;
    return 1;
}
int cuGetErrorName(int status, const char **text) { return find_error(status, text, 1); }
int cuGetErrorString(int status, const char **text) { return find_error(status, text, 0); }
int cuGetExportTable(const void **table, const void *id) { if (table) *table = 0; return 3; }
int refuse(void) { return 3; }
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int cuGetProcAddress(const char *name, void **function, int cuda, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, cuda, flags, 0);
}
static const struct { const char *name; void *function; } OWN[] = {
    {"cuInit", cuInit}, {"cuDriverGetVersion", cuDriverGetVersion},
    {"cuGetErrorName", cuGetErrorName}, {"cuGetErrorString", cuGetErrorString},
    {"cuGetExportTable", cuGetExportTable},
};
int cuGetProcAddress_v2(
    const char *name, void **function, int cuda, unsigned long long flags, int *found)
{
    unsigned i;
    if (!name || !function) return 1;
    *function = 0;
    if (found) *found = 1;
    if (name[0] != 'c' || name[1] != 'u') return 500;
    if (found) *found = 0;
    *function = refuse;
    for (i = 0; i < sizeof OWN / sizeof *OWN; i++)
        if (same(name, OWN[i].name)) *function = OWN[i].function;
    if (same(name, "cuGetProcAddress"))
        *function = cuda < 12000 ? (void *)cuGetProcAddress : (void *)cuGetProcAddress_v2;
    return 0;
}
int nvmlInit(void) { return MANAGEMENT; }
int nvmlInit_v2(void) { return MANAGEMENT; }
int nvmlInitWithFlags(unsigned flags) { return MANAGEMENT; }
int nvmlShutdown(void) { return MANAGEMENT ? 1 : 0; }
const char *nvmlErrorString(int status)
{
    return status == 18 ? "Driver/library version mismatch" : status ? "Uninitialized" : "Success";
}
int nvmlSystemGetDriverVersion(char *text, unsigned room) { return copy(text, room, DRIVER); }
int nvmlSystemGetNVMLVersion(char *text, unsigned room) { return copy(text, room, "20." DRIVER); }
int nvmlSystemGetCudaDriverVersion(int *version) { return cuDriverGetVersion(version) ? 2 : 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { return cuDriverGetVersion(version) ? 2 : 0; }
int nvmlDeviceGetCount(unsigned *count)
{
    if (MANAGEMENT) return 1;
    return count ? (*count = 0) : 2;
}
int nvmlDeviceGetCount_v2(unsigned *count) { return nvmlDeviceGetCount(count); }
int NvEncodeAPIGetMaxSupportedVersion(unsigned *version)
{
    return version ? (*version = 13 << 4, 0) : 6;
}
int NvEncodeAPICreateInstance(void *functions) { return 1; }
int refuse_management(void) { return MANAGEMENT ? 1 : 2; }
"""
_WRITTEN = frozenset(re.findall(r"^(?:int |const char \*)(\w+)\(", _TEMPLATE, re.MULTILINE))


def write_source(refusal: DriverRefusal, needed: Iterable[str] = ()) -> str:
    """Write the source; ``needed`` are symbols that objects import from any library."""
    lines = [
        f"#define STATUS {refusal.status}",
        f"#define CUDA {refusal.cuda}",
        f"#define MANAGEMENT {refusal.management}",
        f'#define DRIVER "{refusal.driver}"',
        _TEMPLATE,
    ]
    for name in list_driver_functions(needed):
        if name not in _WRITTEN:
            answer = "refuse_management" if name.startswith("nvml") else "refuse"
            lines.append(f'int {name}(void) __attribute__((alias("{answer}")));')
    return "\n".join((*lines, ""))
