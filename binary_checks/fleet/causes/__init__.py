"""Why an attempt failed: rules of causes.toml over reasons and logs, and how the process ended."""
