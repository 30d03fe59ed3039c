"""Checkpoints: what is stored, how it is decided upon, and the only place that does object I/O."""
