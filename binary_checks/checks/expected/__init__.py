"""What only the profile knows of a project's packages, and nothing in them can tell."""
