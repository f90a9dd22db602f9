"""The linking of a library is reported only with proof."""

from __future__ import annotations

import pytest

from binary_checks.knowledge.linked_libraries import find_linked, library_of_file
from binary_checks.model import (
    Dependency,
    Linkage,
    LinkedLibrary,
    Linking,
    ObjectFile,
    OpenedNames,
    Whence,
)
from fixtures.linking import link
from fixtures.values import elf_file, macho_file, symbols, wheel

DEFLATE = "deflate 1.3.1 Copyright 1995-2024 Jean-loup Gailly and Mark Adler"
SSL_DIR, SSL = 'OPENSSLDIR: "/usr/lib/ssl"', "OpenSSL 3.0.13 30 Jan 2024"


def linked(*objects: ObjectFile, linkage: Linkage | None = None) -> list[tuple[str, str, str]]:
    found = find_linked(wheel(objects=objects), linkage).libraries
    return [(each.name, each.linking.value, each.version) for each in found]


def needs(*names: str) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=name) for name in names)


def test_a_library_s_own_text_in_an_object_that_does_not_need_it() -> None:
    (found,) = find_linked(wheel(objects=[elf_file("demo/x.so", texts=(DEFLATE,))]), None).libraries
    assert found == LinkedLibrary(
        name="zlib",
        role="zlib",
        linking=Linking.STATIC,
        version="1.3.1",
        evidence=f"demo/x.so: {DEFLATE}",
    )


def test_what_is_needed_is_dynamic_even_with_a_text() -> None:
    one = elf_file("demo/x.so", needed=needs("libz.so.1"), texts=(DEFLATE,))
    assert linked(one) == [("zlib", "dynamic", "")]


def test_where_a_needed_library_comes_from_and_which_version_it_is() -> None:
    file = "libcrypto-1a2b3c4d.so.3"
    module = elf_file("demo/x.so", needed=needs(file, "libz.so.9"), runpath=("$ORIGIN/demo.libs",))
    ours = elf_file(f"demo/demo.libs/{file}", texts=(SSL_DIR, SSL))
    found = find_linked(wheel(objects=[module, ours]), link(module, ours)).libraries
    assert [(each.name, each.version, each.file, each.whence) for each in found] == [
        ("OpenSSL", "3.0.13", file, Whence.BUNDLED),
        ("zlib", "", "libz.so.9", Whence.MISSING),
    ]


def test_a_library_is_not_static_in_itself() -> None:
    assert linked(elf_file("demo.libs/libz-1a2b3c4d.so.1.3.1", texts=(DEFLATE,))) == []
    assert linked(elf_file("demo/libs/x.so", name="libz.so.1", texts=(DEFLATE,))) == []


def test_functions_that_only_one_library_exports() -> None:
    assert linked(elf_file(exports=symbols("dnnl_version"))) == [("oneDNN", "static", "")]
    assert linked(elf_file(imports=symbols("dnnl_version"))) == []


def test_a_text_that_a_header_has_too_and_a_name_that_may_be_opened_are_doubts() -> None:
    assert linked(elf_file(texts=(SSL,))) == [("OpenSSL", "unknown", "")]
    assert linked(elf_file(texts=(SSL_DIR, SSL))) == [("OpenSSL", "static", "3.0.13")]
    opener = elf_file(opened=OpenedNames(names=("libcudart.so.12",)))
    assert linked(opener) == [("CUDA runtime", "unknown", "")]


def test_a_fork_is_not_its_origin_too() -> None:
    both = elf_file(texts=(DEFLATE, "zlib-ng 2.3.3"))
    assert linked(both) == [("zlib-ng", "static", "2.3.3")]
    runtime = ("N10__cxxabiv117__class_type_infoE", "terminating due to %s exception of type %s")
    assert linked(elf_file(texts=runtime)) == [("libc++", "static", "")]


def test_objects_that_have_a_library_in_one_way_are_one_row() -> None:
    two = [elf_file(f"demo/{name}.so", needed=needs("libgomp.so.1")) for name in "ab"]
    (found,) = find_linked(wheel(objects=two), None).libraries
    assert (found.objects, found.evidence) == (2, "demo/a.so: needs libgomp.so.1")


def test_the_blas_of_macos() -> None:
    path = "/System/Library/Frameworks/Accelerate.framework/Versions/A/Accelerate"
    assert linked(macho_file(needed=needs(path))) == [("Accelerate", "dynamic", "")]


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("libopenblas64_p-r0-15028c96.3.21.so", "OpenBLAS"),
        ("libscipy_openblas64_-32a4b2a6.so", "OpenBLAS"),
        ("libopenblaso-r0-d77a1985.3.15.so", "OpenBLAS"),
        ("libcasadi-tp-openblas.so.0", "OpenBLAS"),
        ("libgomp-a34b3233.so.1.0.0", "libgomp"),
        ("libomp.dylib", "LLVM OpenMP"),
        ("libiomp5md.dll", "Intel OpenMP"),
        ("vcomp140.dll", "Microsoft OpenMP"),
        ("libcrypto-3-x64.dll", "OpenSSL"),
        ("libssl.so.1.1", "OpenSSL"),
        ("zlib1.dll", "zlib"),
        ("libz.1.dylib", "zlib"),
        ("libzmq.so.5", ""),
        ("libstdc++.so.6", "libstdc++"),
        ("libc++.1.dylib", "libc++"),
        ("libc.so.6", ""),
        ("MSVCP140.dll", "Visual C++ runtime"),
        ("cudart64_12.dll", "CUDA runtime"),
        ("libcudnn_ops.so.9", "cuDNN"),
        ("libcublasLt.so.12", "cuBLAS"),
        ("libtbb.so.12", "TBB"),
        ("libmkl_rt.so.2", "MKL"),
        ("libblas.so.3", "BLAS of the system"),
        ("libprotobuf.so.32", "protobuf"),
        ("libssh2.so.1", ""),
        ("libcryptopp.so", ""),
        ("libompl.so", ""),
    ],
)
def test_which_library_a_file_is(file: str, library: str) -> None:
    assert library_of_file(file) == library
