"""The exports of system libraries are those in their distributors' packages."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

import pytest

from binary_checks.model import SystemLibrary
from binary_checks.systems import policies, policy_for, system_library

PROVIDERS = {
    "CXXABI": ("libstdc++.so.6",),
    "GCC": ("libgcc_s.so.1",),
    "GLIBC": ("libc.so.6", "libm.so.6"),  # 2.40 added symbols to libm only
    "GLIBCXX": ("libstdc++.so.6",),
    "LIBATOMIC": ("libatomic.so.1",),
    "ZLIB": ("libz.so.1",),
}
ARCHITECTURES = (
    "aarch64",
    "armv7l",
    "i686",
    "loongarch64",
    "ppc64le",
    "riscv64",
    "s390x",
    "x86_64",
)


def find(soname: str, tag: str = "manylinux_2_28_x86_64") -> SystemLibrary | None:
    policy = policy_for(tag)
    assert policy is not None
    return system_library(soname, architecture=policy.architecture, policy=policy)


def have(soname: str, tag: str = "manylinux_2_28_x86_64") -> SystemLibrary:
    library = find(soname, tag)
    assert library is not None
    return library


def exported(soname: str, name: str, tag: str = "manylinux_2_28_x86_64") -> frozenset[str]:
    return have(soname, tag).symbols.get(name, frozenset())


def test_a_function_that_changed_is_exported_with_both_its_versions() -> None:
    assert exported("libm.so.6", "log") == {"GLIBC_2.2.5", "GLIBC_2.29"}
    assert exported("libm.so.6", "log", "manylinux_2_28_aarch64") == {"GLIBC_2.17", "GLIBC_2.29"}
    assert exported("libc.so.6", "memcpy") == {"GLIBC_2.2.5", "GLIBC_2.14"}


def test_the_cxx_runtime_exports_a_symbol_under_the_version_that_added_it() -> None:
    name = "_ZSt28__throw_bad_array_new_lengthv"
    for tag in ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64"):
        assert exported("libstdc++.so.6", name, tag) == {"GLIBCXX_3.4.29"}
    unique_global = "_ZNSs4_Rep20_S_empty_rep_storageE"
    assert exported("libstdc++.so.6", unique_global) == {"GLIBCXX_3.4"}


def test_threads_are_found_in_their_old_library_and_in_libc() -> None:
    assert "GLIBC_2.2.5" in exported("libpthread.so.0", "pthread_create")
    assert exported("libc.so.6", "pthread_create") == {"GLIBC_2.2.5", "GLIBC_2.34"}


@pytest.mark.parametrize(
    ("soname", "name"),
    [
        ("libpthread.so.0", "pthread_create"),
        ("libpthread.so.0", "nanosleep"),
        ("librt.so.1", "clock_gettime"),
        ("libdl.so.2", "dlopen"),
        ("librt.so.1", "shm_open"),
        ("libutil.so.1", "openpty"),
    ],
)
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a != "loongarch64"])
def test_what_moved_to_libc_is_still_found_where_older_objects_look(
    soname: str, name: str, architecture: str
) -> None:
    nodes = exported(soname, name, f"manylinux_2_31_{architecture}")
    assert nodes - {"GLIBC_2.34"}
    assert exported("libc.so.6", name, f"manylinux_2_31_{architecture}") <= nodes


def test_a_symbol_that_moved_to_libc_is_in_its_old_library_before() -> None:
    libc, threads, timers = map(have, ("libc.so.6", "libpthread.so.0", "librt.so.1"))
    assert libc.moved["shm_open"] == threads.moved["shm_open"] == "librt.so.1"
    assert timers.moved["dlopen"] == "libdl.so.2"
    assert libc.moved["pthread_sigmask"] == "libpthread.so.0", "glibc 2.32"
    assert not {"shm_open", "aio_read"} & timers.moved.keys()
    # libpthread.so.0 has fcntl and nanosleep, too, but libc.so.6 always had them
    assert not {"fcntl", "nanosleep", "reallocarray", "__libc_start_main"} & libc.moved.keys()


def test_a_version_node_without_any_symbol_is_known() -> None:
    libc = have("libc.so.6")
    assert {"GLIBC_ABI_DT_RELR", "GLIBC_PRIVATE", "GLIBC_2.41"} <= libc.versions
    assert "GLIBC_2.41" not in libc.symbols, "the linker's marker of a node is no symbol"
    assert "libc.so.6" not in libc.versions
    threads = have("libpthread.so.0")  # which lost its symbols, and not its own nodes
    assert "GLIBC_2.41" in libc.versions - threads.versions
    assert "GLIBC_2.2.5" in threads.versions


def test_a_library_without_versions_exports_bare_names() -> None:
    assert exported("libX11.so.6", "XOpenDisplay") == {""}
    assert exported("libglib-2.0.so.0", "g_malloc") == {""}
    assert exported("ld-linux-x86-64.so.2", "__tls_get_addr") == {
        "GLIBC_2.3"
    }  # the loader has them
    assert have("libX11.so.6").versions == frozenset()


@pytest.mark.parametrize("soname", ["libc.musl-x86_64.so.1", "ld-musl-x86_64.so.1", "libc.so"])
def test_musl_exports_bare_names_under_each_of_its_names_as_zlib_does(soname: str) -> None:
    assert exported(soname, "pthread_create", "musllinux_1_2_x86_64") == {""}
    library = have(soname, "musllinux_1_2_x86_64")
    assert (library.soname, library.versions) == (soname, frozenset())
    assert exported("libz.so.1", "inflate", "musllinux_1_2_aarch64") == {""}
    assert exported("libz.so.1", "inflateGetHeader", "musllinux_1_2_aarch64")


@pytest.mark.parametrize(
    ("soname", "tag"),
    [
        ("libopenblas.so.0", "manylinux_2_28_x86_64"),
        ("libc.so", "manylinux_2_28_x86_64"),
        ("libc.musl-x86_64.so.1", "manylinux_2_28_x86_64"),
        ("libc.musl-aarch64.so.1", "musllinux_1_2_x86_64"),
        ("libc.so.6", "musllinux_1_2_x86_64"),
        ("libstdc++.so.6", "musllinux_1_2_x86_64"),
        ("ld-linux-aarch64.so.1", "manylinux_2_28_x86_64"),
        ("libc.so.6", "manylinux2014_ppc64"),
        ("", "manylinux_2_28_x86_64"),
        ("../glibc/libc.so.6", "manylinux_2_28_x86_64"),
        ("../musl/libc.so", "manylinux_2_28_x86_64"),
        ("/etc/passwd", "manylinux_2_28_x86_64"),
        ("lib\0c.so.6", "manylinux_2_28_x86_64"),
        ("x" * 100_000, "manylinux_2_28_x86_64"),
    ],
)
def test_a_library_without_data_is_none_and_never_an_empty_one(soname: str, tag: str) -> None:
    assert find(soname, tag) is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_library_of_a_policy_has_export_data(architecture: str) -> None:
    highest = {libc: policies(libc, architecture)[-1] for libc in ("glibc", "musl")}
    missing = {
        soname
        for policy in highest.values()
        for soname in policy.libraries
        if system_library(soname, architecture=architecture, policy=policy) is None
    }
    absent = set() if architecture in ("x86_64", "aarch64") else {"libmvec.so.1"}
    if architecture == "loongarch64":  # too new for parts that glibc keeps for old objects only
        absent |= {"libanl.so.1", "libnsl.so.1", "libutil.so.1"}
    assert missing == absent


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_version_a_policy_lists_is_one_its_library_defines(architecture: str) -> None:
    policy = policies("glibc", architecture)[-1]
    undefined = {
        f"{prefix}_{version}"
        for prefix, versions in policy.versions.items()
        for version in versions
    }
    for soname in sum(PROVIDERS.values(), start=()):
        library = system_library(soname, architecture=architecture, policy=policy)
        assert library is not None
        undefined -= library.versions
    # In auditwheel's lists, but not defined by the newest build of the library.
    assert undefined <= {"GLIBC_2.0", "GLIBC_2.37", "GCC_4.4.0"}
    if architecture in ("x86_64", "i686", "s390x"):
        assert undefined == set()


def test_a_table_is_read_once() -> None:
    assert find("libm.so.6") is find("libm.so.6", "manylinux2014_x86_64")


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="compares with Linux on x86_64",
)
@pytest.mark.parametrize("soname", ["libc.so.6", "libm.so.6", "libpthread.so.0", "libstdc++.so.6"])
def test_readelf_sees_the_same_in_this_hosts_library(soname: str) -> None:
    if shutil.which("readelf") is None or shutil.which("ldconfig") is None:
        pytest.skip("needs readelf and ldconfig")
    cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = [
        line.split(" => ")[1] for line in cache.splitlines() if f"{soname} (libc6,x86-64)" in line
    ]
    if not paths:
        pytest.skip(f"no {soname} on this host")
    command = ["readelf", "--dyn-syms", "--wide", paths[0]]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split() for line in lines if "@" in line]
    host = {
        (row[7].split("@")[0], row[7].rpartition("@")[2])
        for row in rows
        if row[4] in ("GLOBAL", "WEAK", "UNIQUE") and row[6] not in ("UND", "ABS")
    }
    library = have(soname)
    ours = {(name, node) for name, nodes in library.symbols.items() for node in nodes}
    # GLIBC_PRIVATE names come and go between releases; a newer host may know newer versions.
    known = {(n, v) for n, v in host if v in library.versions and v != "GLIBC_PRIVATE"}
    assert len(known) > 10 or soname == "libpthread.so.0"
    assert known - ours == set()
    hosts_nodes = {v for _, v in host} - {"GLIBC_PRIVATE"}
    only_ours = {n for n, v in ours - host if v in hosts_nodes}
    if soname != "libpthread.so.0":  # the host's symbols of it moved to libc
        # Removed since glibc 2.31, or moved from libm to libc.
        assert only_ours <= {"malloc_get_state", "malloc_set_state", "__isnanf128"}
