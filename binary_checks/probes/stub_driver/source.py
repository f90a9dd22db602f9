"""Writes the C source of a driver that is there and refuses: it has every function, and no GPU.

All of its libraries are one file under several names. It needs no C library, so that it can be
loaded on any Linux, and stays loaded (``nodelete``), so that it is seen that it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from binary_checks.knowledge.cuda import list_driver_functions

OPTIONS = (
    *("-shared", "-fPIC", "-O1", "-w", "-nostdlib", "-ffreestanding", "-fno-stack-protector"),
    *("-Wl,-z,nodelete", "-Wl,-Bsymbolic", "-Wl,--hash-style=both"),
)
"""For cc, gcc or clang."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverRefusal:
    """What such a driver answers."""

    state: str  # how profiles name it
    status: int  # of cuInit
    cuda: int  # of cuDriverGetVersion, 12040 for 12.4
    management: int  # of nvmlInit
    driver: str  # the version that the management library tells


NEWEST = 20000
"""A CUDA that no runtime is newer than, as a driver tells it."""
REFUSALS = (
    DriverRefusal(state="no-device", status=100, cuda=NEWEST, management=0, driver="999.01"),
    # The libraries of one driver above the kernel module of another, as after an update.
    DriverRefusal(state="driver-mismatch", status=803, cuda=NEWEST, management=18, driver="999.02"),
    # Older than any runtime that asks it, so that it gives cudaErrorInsufficientDriver (35).
    DriverRefusal(state="old-driver", status=100, cuda=10010, management=0, driver="418.39"),
)

# Without a driver that was initialised every other function gives CUDA_ERROR_NOT_INITIALIZED (3),
# and the management library's NVML_ERROR_UNINITIALIZED (1), as the manuals say.
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
    """Write the source; ``needed`` are symbols that objects import, whoever provides them."""
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
