"""Steps that apply the records of changes to a table: its current rows, or all versions of them."""

from mixedmode.operators.apply_changes.operator import END, START, ApplyChangesOperator

__all__ = ["END", "START", "ApplyChangesOperator"]
