"""Where an interpreter looks for packages."""
