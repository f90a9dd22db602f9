"""Report the version, extension suffixes, tags and folders of the running interpreter."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any


def probe(request: dict[str, Any], record: Any, _process: dict[str, Any]) -> None:
    """Report all facts at once, since none of this code can crash."""
    answer = {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "free_threaded": "free-threading" in sys.version,
        "platform": sysconfig.get_platform(),
        "machine": platform.machine(),
        "libc": name_libc(),
        "operating_system": name_system(),
        "extension_suffixes": EXTENSION_SUFFIXES,
        "paths": sysconfig.get_paths(),
        "prefix": sys.prefix,
        "tags": list_tags(request.get("packaging", "")),
    }
    record.finish(answer)


def name_libc() -> str:
    """Return the C library, "glibc 2.36", or "" if it cannot be determined."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""


def name_system() -> str:
    """Return "Debian GNU/Linux 12 (bookworm)", "macOS 14.5", "Windows 10.0.22631", or ""."""
    if sys.platform == "darwin":
        return ("macOS " + platform.mac_ver()[0]).strip()
    if sys.platform == "win32":
        return ("Windows " + platform.version()).strip()
    for path in ("/etc/os-release", "/usr/lib/os-release"):  # man 5 os-release: the first counts
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    name, _, value = line.strip().partition("=")
                    if name == "PRETTY_NAME":
                        return value.strip("\"'")
            return ""
        except OSError:
            pass
    return ""


def list_tags(folder: str) -> list[str] | None:
    """Return the accepted wheel tags, best first, as ``packaging`` in that folder computes them.

    Return None if ``packaging`` cannot run: it may need a newer interpreter.
    """
    try:
        from importlib.util import module_from_spec, spec_from_file_location

        path = os.path.join(folder, "__init__.py")
        spec = spec_from_file_location("packaging", path, submodule_search_locations=[folder])
        assert spec is not None and spec.loader is not None
        sys.modules["packaging"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["packaging"])
        from packaging.tags import sys_tags  # imported from that folder

        return [str(tag) for tag in sys_tags()]
    except Exception:
        return None
