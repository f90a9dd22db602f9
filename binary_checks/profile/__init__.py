"""What a project expects of its packages: a TOML file in, a Profile out."""
