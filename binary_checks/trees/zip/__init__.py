"""Zip archives: directory, headers and members, as installers read them or refuse to."""
