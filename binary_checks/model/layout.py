"""Where the parts of an installed package lie, relative to the prefix they are installed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The folders of a prefix; the paths of all facts are relative to that prefix.

    A prefix is a virtual environment, a conda environment, or the folder that a libtorch archive
    is unpacked in. Each folder is a normalised relative path without a slash at its end; "" is the
    prefix itself. The default is a prefix without a site-packages of its own, as
    ``pip install --target`` makes one and as a libtorch archive is.
    """

    site_packages: str = ""  # "lib/python3.11/site-packages"; on Windows "Lib/site-packages"
    scripts: str = "bin"  # where console scripts land; "Scripts" on Windows
    python: str = "bin"  # where the interpreter's program lies; "" on Windows
    libraries: str = "lib"  # shared libraries of the prefix; "Library/bin" of conda on Windows
    headers: str = "include"
    data: str = ""
    climbs: bool = True
    """Whether users know what lies outside of site-packages by the way from there, as RECORD has
    it (``../../../lib/x.so``), or else from the prefix (``lib/x.so``)."""

    def place(self, path: str) -> str:
        """The place in the prefix of a path that counts from site-packages, as RECORD's do.

        ``../../../bin/x`` is ``bin/x``. Only ``..`` at its beginning is resolved: whatever else is
        odd about a path stays for checks to judge, and an absolute path stays what it is. What
        leaves the prefix begins with ``..``.
        """
        if path.startswith("/"):
            return path
        folders, rest = self._folders, path
        while folders and (rest == ".." or rest.startswith("../")):
            folders, rest = folders[:-1], rest[3:]
        return "/".join((*folders, rest)) if rest else "/".join(folders)

    def shorten(self, path: str) -> str:
        """The path as users know it, counted from site-packages: `place` the other way round.

        ``torch/lib/x.so`` for what lies in site-packages, ``../x`` for what lies beside it, and
        by way of the prefix ``../../../lib/x.so`` for all else: ``lib/x.so`` would look like a
        file of site-packages. Waivers and globs of a profile are matched against this spelling.
        """
        inside = self.inside(path)
        if inside is not None or path.startswith("/") or not self.climbs:
            return path if inside is None else inside
        parent = self.site_packages.rpartition("/")[0]
        if parent and path.startswith(f"{parent}/"):
            return f"..{path.removeprefix(parent)}"
        up = "/".join([".."] * len(self._folders))
        return "/".join(filter(None, (up, path)))

    def shorten_label(self, label: str) -> str:
        """What a linkage names, as users know it: ``wheel:<dist>:<path>`` has a path at its end."""
        kind, colon, rest = label.partition(":")
        if colon and kind in {"system", "python"}:
            return label
        if colon and kind == "wheel":
            distribution, _, path = rest.partition(":")
            return f"wheel:{distribution}:{self.shorten(path)}"
        return self.shorten(label)

    def inside(self, path: str) -> str | None:
        """The path counted from site-packages, None for what lies outside of it."""
        if not self.site_packages:
            return None if path.startswith(("/", "../")) or path == ".." else path
        if path == self.site_packages:
            return ""
        beginning = f"{self.site_packages}/"
        return path.removeprefix(beginning) if path.startswith(beginning) else None

    @property
    def _folders(self) -> tuple[str, ...]:
        return tuple(self.site_packages.split("/")) if self.site_packages else ()
