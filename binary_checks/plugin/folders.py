"""The way from pytest's session to the packages: no folder is searched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from binary_checks.plugin.session import SESSION


class PackageFolder(pytest.Directory):
    """A folder in which nothing matters but the packages that the user named."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """Its packages, and the folders on the way to others."""
        for path in self.config.stash[SESSION].ways_from(self.path):
            if path.is_dir():
                yield self.ihook.pytest_collect_directory(path=path, parent=self)
            else:
                yield from self.ihook.pytest_collect_file(file_path=path, parent=self)
