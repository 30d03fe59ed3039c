"""Connectors: one folder for each kind of source and sink, with its settings, code, errors and jars.

A kind registers itself by an entry point (config/registry.py), so no module here imports that of another kind. Code
that kinds have in common is in mixedmode/sources and mixedmode/sinks. This module has the classes for custom
connectors; it imports little, because Spark's processes import it.
"""

from mixedmode.connectors.custom.classes import CustomSink, CustomSource, Offset

__all__ = ["CustomSink", "CustomSource", "Offset"]
