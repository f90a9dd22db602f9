"""The folders in which an interpreter looks for packages."""
