"""Why something failed: rules of causes.toml over results and logs."""
