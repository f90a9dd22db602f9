"""The files of NVIDIA's driver on this host, which a process in another root is given to read.

They belong to the kernel's module, not to a system: container runtimes bring them along likewise.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_FOLDERS = tuple(
    map(
        Path,
        (
            *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"),
            *("/usr/local/nvidia/lib64", "/usr/local/cuda/compat", "/usr/lib/wsl/lib"),
            "/run/opengl-driver/lib",
        ),
    )
)
_MARK = "libcuda.so.1"
_PATTERNS = ("libcuda.so*", "libcudadebugger.so*", "libnvidia-*.so*", "libnvcuvid.so*")


def find_driver_files(target: str, named: Iterable[Path] = ()) -> tuple[tuple[Path, str], ...]:
    """Pair each file of the driver with its path below ``target``; () where there is none.

    ``named`` are folders that the user's environment leads to, before those of distributions.
    """
    for folder in (*named, *_FOLDERS):
        if (folder / _MARK).exists():
            found = {path.name: path for pattern in _PATTERNS for path in folder.glob(pattern)}
            return tuple((path, f"{target}/{name}") for name, path in sorted(found.items()))
    return ()
