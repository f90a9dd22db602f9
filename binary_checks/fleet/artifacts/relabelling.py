"""Wheels without their local version, and what they are made of.

An index for everybody accepts no local version. Only METADATA, RECORD, the names of the folders in
which they are, and the file's name differ in the new wheel; all other members are copied as they
are compressed. The same wheel always gives the same bytes, so that anybody can repeat it.
"""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import re
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.artifact import Artifact, ArtifactRefusedError
from binary_checks.fleet.artifacts.kept_artifacts import fetch_object, find_artifact, hash_file
from binary_checks.fleet.artifacts.kept_verdicts import hash_bytes
from binary_checks.fleet.store import Store, origins_prefix

_INFO, _DATA = ".dist-info", ".data"
_SIGNED = ("RECORD.jws", "RECORD.p7s")
_LARGEST_TEXT = 64 << 20  # bytes of METADATA or RECORD
_VERSION = re.compile(rb"^Version:[ \t]*([^\r\n]*?)[ \t]*(\r?)$", re.MULTILINE | re.IGNORECASE)
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of the name and the extra field
_SIGNATURE = b"PK\x03\x04"
_ZIP64 = 1  # id of the extra field with sizes of 8 bytes
_BLOCK = 1 << 20


def relabel_wheel(path: Path, folder: Path) -> Path:
    """Write a wheel without its local version to the folder. Raises ArtifactRefusedError."""
    parts = path.name.split("-")
    public = _take_label(parts[1], path.name)
    made = folder / "-".join((parts[0], public, *parts[2:]))
    try:
        with zipfile.ZipFile(path) as source:
            names = _rename(source, path.name, public)
            texts = _rewrite(source, names, path.name)
            _write(path, source, names, texts, made)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, struct.error) as error:
        raise ArtifactRefusedError(f"{path.name}: cannot be read: {error}") from None
    return made


def _take_label(version: str, named: str) -> str:
    public, _, local = version.partition("+")
    if not local:
        raise ArtifactRefusedError(f"{named}: its version has no local label")
    return public


def _rename(source: zipfile.ZipFile, named: str, public: str) -> dict[str, str]:
    """Return the new name of each member."""
    listed = source.namelist()
    if len(set(listed)) != len(listed):
        raise ArtifactRefusedError(f"{named}: two of its members have the same name")
    folders = {name.partition("/")[0] for name in listed if "/" in name}
    infos = [each for each in folders if each.endswith(_INFO)]
    if len(infos) != 1:
        raise ArtifactRefusedError(f"{named}: it has {len(infos)} folders *{_INFO}")
    stem = infos[0].removesuffix(_INFO)
    bare = f"{stem.partition('-')[0]}-{public}"
    renamed = {f"{stem}{end}": f"{bare}{end}" for end in (_INFO, _DATA)}
    split = [name.partition("/") for name in listed]
    return {
        f"{folder}{slash}{rest}": f"{renamed.get(folder, folder)}{slash}{rest}"
        for folder, slash, rest in split
    }


def _rewrite(source: zipfile.ZipFile, names: Mapping[str, str], named: str) -> dict[str, bytes]:
    """Return the new contents of METADATA and RECORD, by their old names."""
    (info,) = {name.partition("/")[0] for name in names if name.partition("/")[0].endswith(_INFO)}
    metadata, record = f"{info}/METADATA", f"{info}/RECORD"
    if signed := [name for name in _SIGNED if f"{info}/{name}" in names]:
        raise ArtifactRefusedError(f"{named}: {signed[0]} signs a RECORD that would change")
    for name in (metadata, record):
        if name not in names or source.getinfo(name).file_size > _LARGEST_TEXT:
            raise ArtifactRefusedError(f"{named}: it has no {name.rpartition('/')[2]} to rewrite")
    new = _rewrite_metadata(source.read(metadata), named)
    rows = _rewrite_record(source.read(record), names, {metadata: new}, named)
    return {metadata: new, record: rows}


def _rewrite_metadata(content: bytes, named: str) -> bytes:
    blank = re.search(rb"\r?\n\r?\n", content)  # between the headers and the description
    end = blank.start() if blank else len(content)
    found = _VERSION.findall(content, 0, end)
    if len(found) != 1:
        raise ArtifactRefusedError(f"{named}: METADATA has {len(found)} Version fields")
    public = _take_label(found[0][0].decode("utf-8", "replace"), f"{named}: METADATA")
    return _VERSION.sub(rb"Version: " + public.encode() + rb"\2", content[:end]) + content[end:]


def _rewrite_record(
    content: bytes, names: Mapping[str, str], texts: Mapping[str, bytes], named: str
) -> bytes:
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ArtifactRefusedError(f"{named}: RECORD cannot be read: {error}") from None
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    for row in filter(None, rows):
        name, text = row[0], texts.get(row[0])
        hashed = row[1:]
        if text is not None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest())
            hashed = [f"sha256={digest.rstrip(b'=').decode()}", str(len(text))]
        writer.writerow([names.get(name, name), *hashed])
    return written.getvalue().encode()


def _write(
    path: Path,
    source: zipfile.ZipFile,
    names: Mapping[str, str],
    texts: Mapping[str, bytes],
    made: Path,
) -> None:
    with path.open("rb") as raw, zipfile.ZipFile(made, "x") as target:
        target.comment = source.comment
        for entry in source.infolist():
            new = copy.copy(entry)
            new.filename = names[entry.filename]
            if entry.filename in texts:
                # Not compressed: zlib's output depends on its version, and the bytes must not.
                new.compress_type, new.extra = zipfile.ZIP_STORED, b""
                target.writestr(new, texts[entry.filename])
            else:
                _copy_member(raw, entry, new, target)


def _copy_member(
    raw: IO[bytes], entry: zipfile.ZipInfo, new: zipfile.ZipInfo, target: zipfile.ZipFile
) -> None:
    """Copy the compressed bytes of a member under another name; zipfile has no function for that.

    The sizes stand in the new header, even if they stood behind the old bytes.
    """
    raw.seek(entry.header_offset)
    signature, name_length, extra_length = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    if signature != _SIGNATURE:
        raise zipfile.BadZipFile(f"{entry.filename}: its header is not where the directory says")
    raw.seek(name_length + extra_length, io.SEEK_CUR)
    new.flag_bits &= ~0x08
    new.extra = b"".join(_list_extra(entry.extra))
    file = target.fp
    assert file is not None
    new.header_offset = file.tell()
    file.write(new.FileHeader(zip64=None))
    left = entry.compress_size
    while left:
        piece = raw.read(min(left, _BLOCK))
        if not piece:
            raise EOFError(f"{entry.filename} is cut off")
        file.write(piece)
        left -= len(piece)
    target.filelist.append(new)
    target.NameToInfo[new.filename] = new
    target.start_dir = file.tell()


def _list_extra(extra: bytes) -> Iterator[bytes]:
    """Yield the extra fields without that of ZIP64, which is written anew where it is needed."""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind != _ZIP64:
            yield extra[: 4 + size]
        extra = extra[4 + size :]


# The link from a relabelled file to its origin: the name of an object next to it.


def list_origins(store: Store, sha256: str) -> frozenset[str]:
    """Return the SHA-256 of the files of which promotions made a file."""
    prefix = origins_prefix(sha256)
    return frozenset(
        each.name.removeprefix(prefix).partition("/")[0] for each in store.names(prefix)
    )


def find_origin(store: Store, artifact: Artifact) -> Artifact | None:
    """Return the file that an artifact is made of, or None if the store names none.

    The new bytes and their record are made again and compared. Raises RecordError if they differ,
    or if the origin is not in the store.
    """
    for sha256 in sorted(list_origins(store, artifact.sha256)):
        origin = find_artifact(store, sha256)
        if origin is None:
            raise RecordError(f"its origin {sha256} is not in the store")
        with tempfile.TemporaryDirectory(prefix="relabel-") as folder:
            path = fetch_file(store, origin, Path(folder))
            try:
                made = describe_relabelled(origin, relabel_wheel(path, path.parent))
            except ArtifactRefusedError as error:
                raise RecordError(str(error)) from None
        if made.sha256 != artifact.sha256:
            raise RecordError(f"it is not {origin.file_name} without its local version")
        if made != artifact:
            raise RecordError(f"its artifact.json is not that of {origin.file_name}")
        return origin
    return None


def fetch_file(store: Store, artifact: Artifact, folder: Path) -> Path:
    """Write the file of an artifact into the folder. Raises RecordError if its bytes are others."""
    path = folder / artifact.file_name
    with path.open("xb") as file:
        fetch_object(store, artifact.object_name, artifact.sha256, artifact.size, file)
    return path


def describe_relabelled(origin: Artifact, path: Path) -> Artifact:
    """Return the record of a file that was made of an artifact."""
    file = hash_file(path)
    with zipfile.ZipFile(path) as archive:
        metadata = read_metadata(archive)
    return replace(
        origin,
        sha256=file.sha256,
        file_name=path.name,
        size=file.size,
        version=origin.version.partition("+")[0],
        metadata_sha256=hash_bytes(metadata),
    )


def read_metadata(archive: zipfile.ZipFile) -> bytes:
    """Return METADATA of a wheel that was relabelled."""
    (name,) = (name for name in archive.namelist() if re.fullmatch(rf"[^/]+{_INFO}/METADATA", name))
    return archive.read(name)
