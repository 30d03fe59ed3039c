"""Names that must differ within a job, as those of steps, columns and outputs."""

from collections.abc import Iterable, Iterator, Mapping

__all__ = ["repeated"]


def repeated(names: Iterable[str], taken: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (name, its owner) of each name that is taken already. Spark ignores the case of names.

    taken: {name: owner} of the names that are taken before.
    """
    owners = {name.lower(): owner for name, owner in taken.items()}
    for name in names:
        if name.lower() in owners:
            yield name, owners[name.lower()]
        owners[name.lower()] = "another one"
