"""Checkpoints: the stored values, the decisions about starts and commits, and all object I/O."""
