"""The forms in which `mixedmode state` prints rows."""

from enum import StrEnum


class StateFormat(StrEnum):
    """The forms of an answer."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"
