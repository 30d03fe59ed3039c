"""mixedmode: one stateful job over years of history and then over live data, on Spark.

    from mixedmode import Job, SideOutput, Sink, Source

The names load when they are first used, so that `mixedmode doctor` runs where a package is missing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixedmode.job import Job, SideOutput, Sink, Source

__all__ = ["Job", "SideOutput", "Sink", "Source"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        import mixedmode.job  # noqa: PLC0415 - on first use

        return getattr(mixedmode.job, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
