"""Libraries that packages link, and matching objects of two builds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from binary_checks.knowledge.library_names import is_grafted_name, strip_graft
from binary_checks.model import (
    Edge,
    Kind,
    Layout,
    Linkage,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    ObjectFile,
    Package,
    Whence,
    export_hook,
    init_function,
    parse_extension_name,
)
from binary_checks.safe_text import elide

# Known libraries, and the marks by which each is recognised in objects that link it.
#
# A row has a pattern for a library's own file name, strings that only its source contains (a string
# that also occurs in a public header proves nothing), and functions that only it exports. The marks
# were measured on published wheels; tests/oracles/test_linked_libraries.py lists facts that were
# proven otherwise.


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryMarks:
    """The marks by which one library is recognised."""

    name: str
    role: str  # "BLAS": libraries with the same role can replace each other
    files: str = ""
    """Expression for the library's file name in lower case, after "lib" and up to the first
    non-letter.
    """
    proofs: tuple[str, ...] = ()  # expressions for strings; a match of any of them is sufficient
    # expression whose first group is the version; a match is not sufficient as proof
    version: str = ""
    exports: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()  # other libraries whose strings this library also contains


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
        # with its day; BoringSSL calls itself "OpenSSL 1.1.1 (compatible; BoringSSL)"
        version=r"\AOpenSSL (\d+\.\d+\.\d+[a-z]*)\S* +(?:FIPS +)?\d+ [A-Z][a-z]{2} \d{4}",
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
    LibraryMarks(
        name="LLVM profile runtime",
        role="profiling",
        proofs=(r"\ALLVM Profile Error: ",),
        instead_of=("libgcov",),
    ),
    LibraryMarks(name="libgcov", role="profiling", proofs=(r"\AGCOV_PREFIX_STRIP\Z",)),
)
DEPENDENCIES = {row.name: row for row in _DEPENDENCIES}
PROFILERS = tuple(row.name for row in _DEPENDENCIES if row.role == "profiling")
"""Runtimes of instrumented code, which count how often each line or branch is executed."""

ANCHORS: tuple[bytes, ...] = (
    b"ersion ", b" OMP version: ", b"OpenBLAS 0.", b"libgomp: ", b"TBB: INTERFACE VERSION",
    b'OPENSSLDIR: "', b"OpenSSL ", b"AWS-LC KEM method", b"boringssl", b" Copyright 1995-",
    b" zlib-ng 2.", b"N10__cxxabiv117__class_type_infoE", b" exception of type %s",
    b"Fortran runtime error", b"insufficient for CUDA runtime version", b"oneDNN v%d.%d.%d",
    b"CLIENT libcurl ", b"exceeded maximum protobuf size of 2GB",
    b"Operation not authorized at current processing stage", b"GCOV_PREFIX_STRIP",
    b"LLVM Profile Error: ",
)  # fmt: skip
"""Substrings of all these strings: a search for the substrings precedes the expressions.

The longer a substring, the faster its search.
"""
_COMPILERS = (
    re.compile(r"\A(GCC): \([^)]*\) (\d+(?:\.\d+)*)"),
    re.compile(r"\b(clang) version (\d+(?:\.\d+)+)"),
    re.compile(r"\A(rustc) version (\d+(?:\.\d+)+)"),
)
_ENDING = r"(?=[-_.]|\d|$)"


@cache
def _compiled(name: str) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None, re.Pattern[str]]:
    """Return the compiled patterns for a library's strings, version and files."""
    row = DEPENDENCIES[name]
    proofs = re.compile("|".join(row.proofs)) if row.proofs else None
    version = re.compile(row.version) if row.version else None
    return proofs, version, re.compile(rf"(?:lib)?(?:{row.files or '(?!)'}){_ENDING}")


def is_mark(text: str) -> bool:
    """Return whether a string is a mark of a library."""
    for name in DEPENDENCIES:
        proofs, version, _ = _compiled(name)
        if (proofs and proofs.search(text)) or (version and version.search(text)):
            return True
    return False


def find_proof(name: str, texts: tuple[str, ...]) -> str:
    """Return the first string that only that library's source contains, or ""."""
    proofs = _compiled(name)[0]
    return next((text for text in texts if proofs and proofs.search(text)), "")


def find_version(name: str, texts: tuple[str, ...]) -> tuple[str, str]:
    """Return the library's version, and the string that contains it; ("", "") if there is none.

    The last of the sorted strings counts: OpenSSL 1.0.2k of CentOS 7 names 1.0.0 and 1.0.1e, too.
    """
    version = _compiled(name)[1]
    matches = ((version.search(text), text) for text in reversed(texts)) if version else ()
    return next(((match[1], text) for match, text in matches if match), ("", ""))


@lru_cache(maxsize=4096)
def library_of_file(file_name: str) -> str:
    """Return the known library with that file name, or ""."""
    lowered = strip_graft(file_name).lower()
    return next((name for name in DEPENDENCIES if _compiled(name)[2].match(lowered)), "")


def names_compiler(text: str) -> bool:
    """Return whether the string names a compiler."""
    return any(each.search(text) for each in _COMPILERS)


def find_compilers(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the compilers named in the strings: "GCC 14.2.1", "rustc 1.97.1"."""
    found = (each.search(text) for text in texts for each in _COMPILERS)
    return tuple(sorted({f"{match[1]} {match[2]}" for match in found if match}))


# The way each known library is linked into a package, with proof. Nothing is guessed.

_WHENCE = {"system": Whence.SYSTEM, "python": Whence.PYTHON, "wheel": Whence.REQUIRED}


class _Found(NamedTuple):
    """One library in one object."""

    name: str
    linking: Linking
    path: str
    evidence: str
    version: str = ""
    file: str = ""
    whence: Whence | None = None


def find_linked(package: Package, linkage: Linkage | None) -> LinkedLibraries:
    """Return every library that objects of the package contain or need.

    Without a linkage the origin of needed libraries is unknown. Raises Unavailable if the symbols
    are unknown.
    """
    loaded = [item for item in package.objects if item.kind in (Kind.SHARED, Kind.EXECUTABLE)]
    own = {path: name for item in loaded for path, name in [(item.path, _library_of(item))] if name}
    versions = _read_versions(loaded, own)
    edges = linkage.edges if linkage is not None else ()
    origins = {(edge.path, edge.needed): find_whence(edge) for edge in edges}
    found = [
        each
        for item in loaded
        for each in (*_find_dynamic(item, origins, versions), *_find_static(item, own))
    ]
    texts = tuple({text for item in loaded for text in item.texts})
    return LinkedLibraries(libraries=_join(package, found), compilers=find_compilers(texts))


def _library_of(item: ObjectFile) -> str:
    """Return the known library that the object itself is; "" for other objects and for modules."""
    name = item.name.rpartition("/")[2]
    return library_of_file(item.file_name) or (library_of_file(name) if name else "")


def _read_versions(loaded: list[ObjectFile], own: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of libraries in the package, by file name."""
    found = {}
    for item in loaded:
        if (name := own.get(item.path)) and (version := find_version(name, item.texts)[0]):
            found[item.file_name] = version
            found.setdefault(item.name.rpartition("/")[2], version)
    return found


def find_whence(edge: Edge) -> Whence:
    """Return the origin of the library that satisfies a need."""
    if edge.resolved is None:
        return Whence.REQUIRED if edge.may_come_with else Whence.MISSING
    kind, colon, _ = edge.resolved.partition(":")
    return _WHENCE.get(kind, Whence.UNKNOWN) if colon else Whence.BUNDLED


def _find_dynamic(
    item: ObjectFile, origins: Mapping[tuple[str, str], Whence], versions: Mapping[str, str]
) -> Iterator[_Found]:
    for need in item.needed:
        file = need.name.rpartition("/")[2]
        name = library_of_file(file)
        if name and name != _library_of(item):
            whence = origins.get((item.path, need.name), Whence.UNKNOWN)
            version = versions.get(file, "") if whence is Whence.BUNDLED else ""
            yield _Found(name, Linking.DYNAMIC, item.path, f"needs {file}", version, file, whence)


def _find_static(item: ObjectFile, own: Mapping[str, str]) -> Iterator[_Found]:
    """Yield statically linked libraries, whose strings or functions an object contains."""
    needed = {library_of_file(need.name.rpartition("/")[2]) for need in item.needed}
    found = {
        name: evidence
        for name in DEPENDENCIES
        if name not in needed and name != own.get(item.path) and (evidence := _prove(item, name))
    }
    for name in tuple(found):
        for other in DEPENDENCIES[name].instead_of:
            found.pop(other, None)
    doubtful = _find_doubtful(item, {*needed, *found, own.get(item.path, "")})
    yield from (_Found(name, Linking.UNKNOWN, item.path, trace) for name, trace in doubtful)
    for name, evidence in found.items():
        version, text = find_version(name, item.texts)
        yield _Found(name, Linking.STATIC, item.path, elide(text or evidence), version)


def _find_doubtful(item: ObjectFile, known: set[str]) -> Iterator[tuple[str, str]]:
    """Yield libraries that an object mentions, but apparently neither contains nor needs."""
    for file in item.opened.names if item.opened else ():
        if (name := library_of_file(file)) and name not in known:
            known.add(name)
            yield name, f"names {file}, which it may open at run time"
    for name in DEPENDENCIES.keys() - known:
        version, text = find_version(name, item.texts)
        if version and not any(name in DEPENDENCIES[each].instead_of for each in known if each):
            yield name, f"names a version, as headers may: {elide(text)}"


def _prove(item: ObjectFile, name: str) -> str:
    if text := find_proof(name, item.texts):
        return text
    likely = [each for each in DEPENDENCIES[name].exports if item.exports.may_mention(each)]
    for each in sorted(item.exports.among(likely)) if likely else ():
        if all(not symbol.library and not symbol.forwarder for symbol in item.exports.find(each)):
            return f"exports {each}"
    return ""


def _join(package: Package, found: list[_Found]) -> tuple[LinkedLibrary, ...]:
    """Return one row for all objects that link a library in the same way."""
    groups: dict[tuple[str, ...], list[_Found]] = {}
    for each in found:
        whence = each.whence.value if each.whence else ""
        key = (each.name, each.linking.value, each.version, each.file, whence)
        groups.setdefault(key, []).append(each)
    rows = []
    for group in groups.values():
        first = min(group, key=lambda each: each.path)
        rows.append(
            LinkedLibrary(
                name=first.name,
                role=DEPENDENCIES[first.name].role,
                linking=first.linking,
                version=first.version,
                file=first.file,
                whence=first.whence,
                objects=len({each.path for each in group}),
                evidence=f"{package.layout.shorten(first.path)}: {first.evidence}",
            )
        )
    order = {name: index for index, name in enumerate(DEPENDENCIES)}
    return tuple(
        sorted(rows, key=lambda row: (order[row.name], row.linking.value, row.file, row.version))
    )


# Matching objects of two builds, regardless of versions and builds in their names.

_METADATA = re.compile(r"^([^/]+?)-[^/]*(\.(?:dist-info|data)/)")
_NUMBERS = re.compile(
    r"(?<=\.so)(?:\.\d+)+$|(?:\.\d+)+(?=\.dylib$)|(?<=[a-z])[-_]?\d+(?:[-._]\d+)*(?=\.dll$)"
)
"""The version in a library's name."""
_GRAFTED_INTO = re.compile(r"(?:^|/)(?:[^/]+\.libs|\.dylibs)/")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectPair:
    """The same object in both builds."""

    subject: str  # its path without build-specific parts; for a fat file with the architecture
    old: ObjectFile
    new: ObjectFile


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedObjects:
    """The objects of two builds."""

    pairs: tuple[ObjectPair, ...] = ()
    removed: tuple[ObjectFile, ...] = ()
    added: tuple[ObjectFile, ...] = ()


@lru_cache(maxsize=4096)
def loose_name(name: str) -> str:
    """Return the name without its version, ``libarrow.so`` for ``libarrow.so.1900``."""
    return _NUMBERS.sub("", strip_graft(name))


def plain_path(layout: Layout, path: str) -> str:
    """Return a path as shown to users, without build-specific version, hash and Python."""
    inside = layout.inside(path)
    shown = _METADATA.sub(r"\1\2", path if inside is None else inside)
    folder, slash, name = shown.rpartition("/")
    extension = parse_extension_name(shown)
    if extension is not None and (extension.implementation or extension.platform):
        ending = ".pyd" if name.endswith(".pyd") else ".so"
        return f"{folder}{slash}{name.removesuffix(extension.suffix)}{ending}"
    return f"{folder}{slash}{strip_graft(name)}"


def is_grafted(item: ObjectFile) -> bool:
    """Return whether an object is a library of another project, added to the package.

    NumPy's lapack_lite.cpython-313-darwin.so is not such a library, in spite of its name.
    """
    name = parse_extension_name(item.path)
    return not (name is not None and name.tagged) and (
        is_grafted_name(item.file_name)
        or _GRAFTED_INTO.search(item.path) is not None
        or bool(library_of_file(item.file_name))
    )


def is_module_name(item: ObjectFile) -> bool:
    """Return whether an object is named like an extension module instead of a library."""
    name = parse_extension_name(item.path)
    return name is not None and (name.tagged or not (item.name or name.stem.startswith("lib")))


def is_module(item: ObjectFile) -> bool:
    """Return whether Python imports an object.

    This includes mypyc's 30fcd…__mypyc, whose name is not an identifier.
    """
    stem = item.file_name.partition(".")[0]
    functions = (init_function(stem), export_hook(stem))
    return is_module_name(item) or bool(item.exports.among(functions))


def pair_objects(old: Package, new: Package) -> PairedObjects:
    """Match objects by path; match the remaining ones by path without numbers if unambiguous."""
    slices = Counter(item.path for item in new.objects)
    removed, added = list(old.objects), list(new.objects)
    pairs: list[ObjectPair] = []
    for spell in (plain_path, lambda layout, path: loose_name(plain_path(layout, path))):
        before, after = _by_key(old, spell, removed), _by_key(new, spell, added)
        matched = {key for key in before if len(before[key]) == len(after.get(key, ()))}
        for one, two in (
            pair for key in matched for pair in zip(before[key], after[key], strict=True)
        ):
            architecture = f" ({two.architecture})" if slices[two.path] > 1 else ""
            subject = plain_path(new.layout, two.path) + architecture
            pairs.append(ObjectPair(subject=subject, old=one, new=two))
        removed, added = (
            [item for key, items in found.items() if key not in matched for item in items]
            for found in (before, after)
        )
    pairs.sort(key=lambda pair: pair.subject)
    return PairedObjects(pairs=tuple(pairs), removed=tuple(removed), added=tuple(added))


def _by_key(
    package: Package, spell: Callable[[Layout, str], str], items: Iterable[ObjectFile]
) -> dict[tuple[str, str], list[ObjectFile]]:
    found: dict[tuple[str, str], list[ObjectFile]] = {}
    for item in sorted(items, key=lambda item: item.path):
        found.setdefault((spell(package.layout, item.path), item.architecture), []).append(item)
    return found
