"""Code for the process of every probe: ``python -I process.py SCRIPT`` runs a probe's script."""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


DISCONNECTED = 76  # exit status of a probe that can no longer send messages


class Recorder:
    """The connection to the parent, over descriptors that no other code uses.

    The functions that this class needs are stored before any package can replace them.
    """

    def __init__(self) -> None:
        self._source, self._sink = os.dup(0), os.dup(1)
        self._read, self._write, self._leave = os.read, os.write, os._exit
        self._encode, self._getpid, self._pid = json.dumps, os.getpid, os.getpid()
        self._unread, self._nonce = b"", ""
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(nothing, standard)
        os.close(nothing)
        self._token, _, request = self._receive().partition(" ")
        self.request: dict[str, Any] = json.loads(request)
        self.answer: dict[str, Any] = {}

    def __call__(self, answer: dict[str, Any]) -> None:
        """Send the answer that was found until now, so that a crash loses only later results."""
        self.answer = answer
        self._send("known", self._encode(answer))

    def enter(self, stage: str, answer: dict[str, Any]) -> None:
        """Send the answer with the name of the stage that begins, in which the process may die."""
        answer["stage"] = stage
        self(answer)

    def finish(self, answer: dict[str, Any]) -> None:
        """Send the complete answer. The package's part is over: the parent now sends the nonce."""
        self._send("over")
        if self._getpid() == self._pid:
            self._nonce = self._receive()
            self._send("answer", self._nonce, self._encode(answer))

    def end(self) -> None:
        """Report that the interpreter shuts down normally."""
        if self._nonce:
            self._send("end", self._nonce)

    def _send(self, *words: str) -> None:
        if self._getpid() != self._pid:
            return  # this process is a child that the package forked, not the probe
        # Code that ran at the interpreter's start may have printed an incomplete line.
        rest = ("\n" + " ".join((self._token,) + words) + "\n").encode()
        try:
            while rest:
                rest = rest[self._write(self._sink, rest) :]
        except OSError:
            self._leave(DISCONNECTED)

    def _receive(self) -> str:
        while b"\n" not in self._unread:
            try:
                piece = self._read(self._source, 65536)
            except OSError:
                piece = b""
            if not piece:
                self._leave(DISCONNECTED)
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode().rstrip("\r")


def main(path: str) -> None:
    """Execute a script, and call its function ``probe``, which answers the request.

    A script without this function does its work when it is executed, with this file's path as its
    argument.
    """
    sys.argv[:] = [path, __file__]
    names = execute(path, "__main__")
    if "probe" in names:
        del sys.argv[1:]
        answer_request(names["probe"], open_recorder())


def execute(path: str, name: str) -> dict[str, Any]:
    """Execute a file as a module of that name, and return its names."""
    names: dict[str, Any] = {"__name__": name, "__file__": path}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    return names


def answer_request(probe: Callable[..., None], record: Any) -> None:
    """Let a probe answer the request; an exception that ends one of its stages is an answer."""
    try:
        probe(record.request, record, globals())
    except BaseException as error:
        if "stage" not in record.answer:
            raise
        state, detail = "raised", describe_exception(error, record.request.get("site_packages", ""))
        if isinstance(error, SystemExit):
            state, detail = "exited", "SystemExit(%r)" % (error.code,)
        record.finish(dict(record.answer, state=state, detail=detail))


def open_recorder() -> Recorder:
    """Read the request, and set the limits in it."""
    recorder = Recorder()
    _limit_resources(recorder.request.get("limits", {}))
    _keep_dialogs_away()
    if os.name == "nt" and recorder.request.get("stacks_after"):
        # Windows has no signal with which the parent could request the stacks.
        import faulthandler

        faulthandler.dump_traceback_later(recorder.request["stacks_after"])
    _come_last(recorder.end)
    return recorder


def _come_last(function: Callable[[], None]) -> None:
    """Register a function to be called at exit, after all functions that a package registers."""
    known = "atexit" in sys.modules
    import atexit

    atexit.register(function)
    # before 3.10, removing the module also removes registered functions
    if not known and sys.version_info >= (3, 10):
        # if a package forgot to import this module, it must not find it imported
        del sys.modules["atexit"]


def _limit_resources(limits: dict[str, int]) -> None:
    """Set soft and hard limits by name ("CORE": 0), as far as the system allows this."""
    if sys.platform.startswith("linux"):
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # if memory runs out, the kernel kills this process first
        except OSError:
            pass
    try:
        import resource
    except ImportError:
        return
    for name, most in limits.items():
        try:
            kind = getattr(resource, "RLIMIT_" + name)
            hard = resource.getrlimit(kind)[1]
            allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (allowed, allowed))
        except (AttributeError, ValueError, OSError):
            continue


def _keep_dialogs_away() -> None:
    """Keep Windows from showing dialogs about crashes and missing DLLs."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.SetErrorMode(
            msvcrt.SEM_FAILCRITICALERRORS
            | msvcrt.SEM_NOGPFAULTERRORBOX
            | msvcrt.SEM_NOOPENFILEERRORBOX
        )
        # if a package forgot to import this module, it must not find it imported
        del sys.modules["msvcrt"]


def list_mapped() -> list[str] | None:
    """Return the files mapped with code into this process, or None if they cannot be listed."""
    # with an annotation, as mypy would otherwise check only one system's branch
    system: str = sys.platform
    try:
        if system.startswith("linux"):
            return sorted(_mapped_on_linux())
        if system == "darwin":
            return sorted(_mapped_on_macos())
        if system == "win32":
            return sorted(_mapped_on_windows())
    except Exception:  # a hostile package may have removed anything
        return None
    return None


def _mapped_on_linux() -> set[str]:
    paths = set()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                path = fields[5]
                paths.add(path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path)
    return paths


def _mapped_on_macos() -> set[str]:
    import ctypes

    dyld = ctypes.CDLL(None)
    dyld._dyld_get_image_name.restype = ctypes.c_char_p
    names = (dyld._dyld_get_image_name(index) for index in range(dyld._dyld_image_count()))
    # dyld may report "@loader_path/../lib.dylib" with the "..", but with links resolved.
    return {os.path.realpath(os.fsdecode(name)) for name in names if name}


def _mapped_on_windows() -> set[str]:
    import ctypes
    from ctypes import wintypes

    windows: Any = ctypes  # untyped, as WinDLL is missing on other systems
    kernel = windows.WinDLL("kernel32", use_last_error=True)
    enumerate_modules = kernel.K32EnumProcessModules
    enumerate_modules.argtypes = (
        wintypes.HANDLE,
        ctypes.POINTER(wintypes.HMODULE),
        wintypes.DWORD,
        ctypes.POINTER(wintypes.DWORD),
    )
    kernel.GetCurrentProcess.restype = wintypes.HANDLE
    kernel.GetModuleFileNameW.argtypes = (wintypes.HMODULE, wintypes.LPWSTR, wintypes.DWORD)
    modules, needed = (wintypes.HMODULE * 4096)(), wintypes.DWORD()
    process = kernel.GetCurrentProcess()
    if not enumerate_modules(process, modules, ctypes.sizeof(modules), ctypes.byref(needed)):
        raise windows.WinError(windows.get_last_error())
    paths, buffer = set(), ctypes.create_unicode_buffer(32768)
    for module in modules[: needed.value // ctypes.sizeof(wintypes.HMODULE)]:
        if kernel.GetModuleFileNameW(module, buffer, len(buffer)):
            paths.add(buffer.value)
    return paths


def describe_exception(error: BaseException, below: str) -> str:
    """Describe an exception in one line, with the innermost line in a file below that folder."""
    place, step = "", error.__traceback__
    while step is not None:
        file_name = step.tb_frame.f_code.co_filename
        if file_name.startswith(below + os.sep):
            file_name = file_name[len(below) + 1 :].replace(os.sep, "/")
            place = " (%s:%d)" % (file_name, step.tb_lineno)
        step = step.tb_next
    message: object = error
    if isinstance(error, SyntaxError) and find_broken_file(error, below):
        # The exception contains only the file's base name.
        message, place = error.msg, " (%s:%s)" % (find_broken_file(error, below), error.lineno or 0)
    try:
        text = " ".join(str(message).split())
    except Exception:  # the exception's __str__ may raise
        text = ""
    line = "%s: %s" % (type(error).__name__, text) if text else type(error).__name__
    return line[:2000] + place


def describe_failure(error: BaseException, below: str) -> dict[str, Any]:
    """Describe how an import failed: it exited, the loader rejected a module, or it raised.

    Also name the missing module or file: packages often wrap the exception in another one.
    """
    if isinstance(error, SystemExit):
        return {"state": "exited", "detail": "SystemExit(%r)" % (error.code,)}
    refused = find_loader_error(error)
    return {
        "state": "raised" if refused is None else "loader error",
        "detail": describe_exception(error if refused is None else refused, below),
        "exception": type(error).__name__,
        "missing_module": find_missing_module(error),
        "missing_file": find_missing_file(error, below),
        "broken_file": find_broken_file(error, below),
    }


def find_loader_error(error: BaseException) -> BaseException | None:
    """Find the ImportError with which the loader rejected an extension module, or return None.

    The import system sets the error's path, but also sets it for a missing name.
    """
    from importlib.machinery import EXTENSION_SUFFIXES

    for each in follow_causes(error):
        if not isinstance(each, ImportError):
            continue
        # The module was loaded, but has no attribute for ``from … import`` (Python 3.12 and later
        # store the name of the attribute).
        stored = getattr(each, "name_from", None) is not None
        lacks_name = stored or str(each.msg).startswith("cannot import name")
        if not lacks_name and str(each.path or "").endswith(tuple(EXTENSION_SUFFIXES)):
            return each
    return None


def find_missing_module(error: BaseException) -> str:
    """Return the module whose absence caused the exception, or "".

    If several alternatives are all missing, return the one that was tried last.
    PackageNotFoundError of importlib.metadata names a distribution, so it does not count.
    """
    absent = [
        each
        for each in follow_blame(error)
        if isinstance(each, ModuleNotFoundError) and type(each).__name__ != "PackageNotFoundError"
    ]
    return (absent[0].name or "") if absent and isinstance(error, ImportError) else ""


def find_missing_file(error: BaseException, below: str) -> str:
    """Return the missing file below that folder that caused the exception, or ""."""
    if not isinstance(error, (OSError, ImportError)):
        return ""
    absent = [each for each in follow_blame(error) if isinstance(each, FileNotFoundError)]
    return name_below(absent[0].filename, below) if absent else ""


def find_broken_file(error: BaseException, below: str) -> str:
    """Return the file below that folder that does not compile, or ""."""
    return name_below(error.filename, below) if isinstance(error, SyntaxError) else ""


def name_below(path: object, below: str) -> str:
    """Return a file's path relative to a folder, or "" if it is elsewhere."""
    if not isinstance(path, str) or not path.startswith(below + os.sep):
        return ""
    return os.path.normpath(path)[len(below) + 1 :].replace(os.sep, "/")


def follow_blame(error: BaseException | None) -> list[BaseException]:
    """Return the exception and the exceptions that it wraps, the original one last.

    An exception that was being handled when another one was raised is not always its cause. Only an
    ImportError without a module name is taken to wrap the exception that was being handled.
    """
    chain: list[BaseException] = []
    while error is not None and not any(error is each for each in chain):
        chain.append(error)
        wraps = isinstance(error, ImportError) and error.name is None
        final = isinstance(error, ImportError) and not wraps
        if final or (isinstance(error, OSError) and not isinstance(error, FileNotFoundError)):
            break
        error = error.__cause__ or (error.__context__ if wraps else None)
    return chain


def follow_causes(error: BaseException | None) -> list[BaseException]:
    """Return an exception and its chain of causes and contexts, the earliest exception last."""
    chain: list[BaseException] = []
    while error is not None and not any(error is each for each in chain):
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def reenabled_gil() -> bool | None:
    """Return whether a free-threaded interpreter enabled its GIL again.

    Return None for other interpreters.
    """
    if "free-threading" not in sys.version or not hasattr(sys, "_is_gil_enabled"):
        return None
    return bool(sys._is_gil_enabled())


if __name__ == "__main__":
    main(sys.argv[1])
