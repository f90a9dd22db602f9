"""Tables and rules about vendors and tags that checks share; no I/O."""
