"""Libraries that packages are linked with, and by what each is known in other libraries' files.

A row a library: how its own file is called, the texts that only its own source compiles in (a text
that a public header has too proves nothing), and functions that nothing else exports. Measured on
published wheels; tests/oracles/test_linked_libraries.py holds what was proven otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

from binary_checks.knowledge.grafted_names import strip_graft


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryMarks:
    """How one library is known."""

    name: str
    role: str  # "BLAS": those of one role stand in for each other
    files: str = ""
    """Expression for its file name in lower case, behind "lib" and up to what is not a letter."""
    proofs: tuple[str, ...] = ()  # expressions for texts, one of which is enough
    version: str = ""  # expression whose first group is the version; it alone proves nothing
    exports: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()  # others whose texts it has too


_DEPENDENCIES = (
    LibraryMarks(
        name="OpenBLAS",
        role="BLAS",
        files=r"(?:\w+-)*(?:scipy_)?openblas\w*",
        proofs=(r"\bOpenBLAS \d+\.\d+",),
        version=r"\bOpenBLAS (\d+(?:\.\d+)+)",
        exports=(
            "openblas_get_config",
            "openblas_get_config64_",
            "scipy_openblas_get_config",
            "scipy_openblas_get_config64_",
        ),
    ),
    LibraryMarks(
        name="MKL",
        role="BLAS",
        files=r"mkl_\w+",
        proofs=(r"Math Kernel Library Version\b",),
        exports=("mkl_get_version_string", "MKL_Get_Version_String"),
    ),
    LibraryMarks(name="Accelerate", role="BLAS", files=r"accelerate|veclib"),
    LibraryMarks(
        name="BLIS",
        role="BLAS",
        files=r"blis(?:-mt)?|aocl-blis",
        exports=("bli_info_get_version_str",),
    ),
    LibraryMarks(name="BLAS of the system", role="BLAS", files=r"c?blas3?|lapacke?|flexiblas"),
    LibraryMarks(
        name="libgomp",
        role="OpenMP",
        files=r"gomp",
        proofs=(r"\Alibgomp: ",),
    ),
    LibraryMarks(
        name="LLVM OpenMP",
        role="OpenMP",
        files=r"omp(?:140)?|omp140",
        proofs=(r"LLVM OMP version: ",),
    ),
    LibraryMarks(
        name="Intel OpenMP",
        role="OpenMP",
        files=r"iomp5(?:md)?",
        proofs=(r"Intel\(R\) OMP version: ",),
    ),
    LibraryMarks(name="Microsoft OpenMP", role="OpenMP", files=r"vcomp\d*"),
    LibraryMarks(
        name="TBB",
        role="TBB",
        files=r"tbb(?:12|malloc|bind)?\w*",
        proofs=(r"TBB: INTERFACE VERSION",),
        version=r"TBB: INTERFACE VERSION\t(\d+)",
        exports=("TBB_runtime_interface_version",),
    ),
    LibraryMarks(
        name="OpenSSL",
        role="TLS",
        files=r"ssl|crypto|ssleay32|libeay32",
        proofs=(r"OPENSSLDIR: ",),
        version=r"\AOpenSSL (\d+\.\d+\.\d+[a-z]*)",
    ),
    LibraryMarks(
        name="AWS-LC",
        role="TLS",
        proofs=(r"AWS-LC KEM method",),
    ),
    LibraryMarks(
        name="BoringSSL",
        role="TLS",
        proofs=(r"boringssl[^\s:]*[/\\](?:crypto|ssl)[/\\]",),
    ),
    LibraryMarks(
        name="zlib",
        role="zlib",
        files=r"z|zlib1?",
        proofs=(r"\b(?:de|in)flate \d\S* Copyright 19",),
        version=r"\b(?:de|in)flate (\d+\.\d+(?:\.\d+)?) Copyright 19",
    ),
    LibraryMarks(
        name="zlib-ng",
        role="zlib",
        files=r"z-ng|zlib-ng\d*",
        proofs=(r"\bzlib-ng \d+\.\d+\.\d+",),
        version=r"\bzlib-ng (\d+\.\d+\.\d+)",
        instead_of=("zlib",),
    ),
    LibraryMarks(
        name="protobuf",
        role="protobuf",
        files=r"protobuf(?:-lite|d)?",
        proofs=(
            r"Protocol Buffer runtime library",
            r"\Aexceeded maximum protobuf size of 2GB",
            r"\AThis program was compiled with Protobuf C\+\+ version\b",
        ),
    ),
    LibraryMarks(
        name="libstdc++",
        role="C++ runtime",
        files=r"stdc\+\+",
        proofs=(r"\AN10__cxxabiv117__class_type_infoE",),
    ),
    LibraryMarks(
        name="libc++",
        role="C++ runtime",
        files=r"c\+\+(?:abi)?",
        proofs=(r"terminating (?:due to|with) %s exception of type %s",),
        instead_of=("libstdc++",),
    ),
    LibraryMarks(
        name="Visual C++ runtime", role="C++ runtime", files=r"msvcp1\d\d\w*|vcruntime1\d\d\w*"
    ),
    LibraryMarks(
        name="libgfortran",
        role="Fortran runtime",
        files=r"gfortran",
        proofs=(r"\AFortran runtime error",),
    ),
    LibraryMarks(
        name="CUDA runtime",
        role="CUDA runtime",
        files=r"cudart(?:64|32)?(?:_\d+)?",
        proofs=(r"\ACUDA driver version is insufficient for CUDA runtime version\Z",),
    ),
    LibraryMarks(name="cuDNN", role="cuDNN", files=r"cudnn\w*", exports=("cudnnCreate",)),
    LibraryMarks(
        name="cuBLAS", role="cuBLAS", files=r"cublas(?:lt)?\w*", exports=("cublasCreate_v2",)
    ),
    LibraryMarks(
        name="NCCL",
        role="NCCL",
        files=r"nccl",
        proofs=(r"\bNCCL version \d",),
        version=r"\bNCCL version (\d+(?:\.\d+)+)",
        exports=("ncclAllReduce",),
    ),
    LibraryMarks(name="MAGMA", role="MAGMA", files=r"magma\w*", exports=("magma_init",)),
    LibraryMarks(
        name="oneDNN",
        role="oneDNN",
        files=r"dnnl|mkldnn",
        proofs=(r"oneDNN v%d",),
        exports=("dnnl_version", "mkldnn_version"),
    ),
    LibraryMarks(
        name="curl",
        role="curl",
        files=r"curl\w*",
        proofs=(r"CLIENT libcurl \d",),
        version=r"CLIENT libcurl (\d+(?:\.\d+)+)",
    ),
    LibraryMarks(
        name="libpng",
        role="libpng",
        files=r"png(?:16)?",
        proofs=(r"\blibpng version \d",),
        version=r"\blibpng version (\d+(?:\.\d+)+)",
    ),
    LibraryMarks(
        name="libjpeg-turbo",
        role="libjpeg",
        files=r"(?:turbo)?jpeg\w*",
        proofs=(r"\Alibjpeg-turbo version \d",),
        version=r"\Alibjpeg-turbo version (\d+(?:\.\d+)+)",
    ),
    LibraryMarks(
        name="libtiff",
        role="libtiff",
        files=r"tiff",
        proofs=(r"\ALIBTIFF, Version \d",),
        version=r"\ALIBTIFF, Version (\d+(?:\.\d+)+)",
    ),
    LibraryMarks(name="expat", role="expat", files=r"expat", exports=("XML_ExpatVersion",)),
    LibraryMarks(
        name="FFmpeg",
        role="FFmpeg",
        files=r"(?:avcodec|avformat|avutil|avfilter|avdevice|swscale|swresample)",
        proofs=(r"\AFFmpeg version \S",),
        version=r"\AFFmpeg version n?(\d+(?:\.\d+)+)",
    ),
    LibraryMarks(
        name="zstd",
        role="zstd",
        files=r"zstd",
        proofs=(r"\AOperation not authorized at current processing stage\Z",),
        exports=("ZSTD_versionNumber",),
    ),
    LibraryMarks(name="LZ4", role="LZ4", files=r"lz4", exports=("LZ4_versionNumber",)),
    LibraryMarks(name="HDF5", role="HDF5", files=r"hdf5", exports=("H5Fcreate",)),
)
DEPENDENCIES = {row.name: row for row in _DEPENDENCIES}

ANCHORS: tuple[bytes, ...] = (
    b"ersion ", b" OMP version: ", b"OpenBLAS 0.", b"libgomp: ", b"TBB: INTERFACE VERSION",
    b'OPENSSLDIR: "', b"OpenSSL ", b"AWS-LC KEM method", b"boringssl", b" Copyright 1995-",
    b" zlib-ng 2.", b"N10__cxxabiv117__class_type_infoE", b" exception of type %s",
    b"Fortran runtime error", b"insufficient for CUDA runtime version", b"oneDNN v%d.%d.%d",
    b"CLIENT libcurl ", b"exceeded maximum protobuf size of 2GB",
    b"Operation not authorized at current processing stage",
)  # fmt: skip
"""What all of these texts have in them: bytes are searched for this, and around it for the text.

The longer a piece, the faster its search.
"""
_COMPILERS = (
    re.compile(r"\A(GCC): \([^)]*\) (\d+(?:\.\d+)*)"),
    re.compile(r"\b(clang) version (\d+(?:\.\d+)+)"),
    re.compile(r"\A(rustc) version (\d+(?:\.\d+)+)"),
)
_ENDING = r"(?=[-_.]|\d|$)"


@cache
def _compiled(name: str) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None, re.Pattern[str]]:
    """For its texts, its version and its files."""
    row = DEPENDENCIES[name]
    proofs = re.compile("|".join(row.proofs)) if row.proofs else None
    version = re.compile(row.version) if row.version else None
    return proofs, version, re.compile(rf"(?:lib)?(?:{row.files or '(?!)'}){_ENDING}")


def is_telling(text: str) -> bool:
    """Whether a text says something of a library."""
    for name in DEPENDENCIES:
        proofs, version, _ = _compiled(name)
        if (proofs and proofs.search(text)) or (version and version.search(text)):
            return True
    return False


def find_proof(name: str, texts: tuple[str, ...]) -> str:
    """The first of the texts that only that library's own source has; "" where none has."""
    proofs = _compiled(name)[0]
    return next((text for text in texts if proofs and proofs.search(text)), "")


def find_version(name: str, texts: tuple[str, ...]) -> tuple[str, str]:
    """The version that the texts tell of that library, and in which; "" where none does."""
    version = _compiled(name)[1]
    matches = ((version.search(text), text) for text in texts) if version else ()
    return next(((match[1], text) for match, text in matches if match), ("", ""))


@lru_cache(maxsize=4096)
def library_of_file(file_name: str) -> str:
    """The dependency that a file of that name is; "" for what is none of them."""
    lowered = strip_graft(file_name).lower()
    return next((name for name in DEPENDENCIES if _compiled(name)[2].match(lowered)), "")


def names_compiler(text: str) -> bool:
    """Whether a compiler left its name there."""
    return any(each.search(text) for each in _COMPILERS)


def find_compilers(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The compilers that left their names: "GCC 14.2.1", "rustc 1.97.1"."""
    found = (each.search(text) for text in texts for each in _COMPILERS)
    return tuple(sorted({f"{match[1]} {match[2]}" for match in found if match}))
