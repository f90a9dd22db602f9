"""Steps for torch on a GPU: the probe's script executes the ``STEPS`` of each file."""
