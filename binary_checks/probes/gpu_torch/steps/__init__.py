"""What torch is to do on a GPU: each file's ``STEPS`` are executed by the probe's script."""
