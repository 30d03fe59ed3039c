"""The differences between two fingerprints of a step, as text: each value as it was and as it is now. Pure."""

import json
from collections.abc import Iterator, Mapping

__all__ = ["changes", "fingerprint_text"]


def changes(before: object, now: object) -> str:
    """Return what differs between two JSON values.

    >>> changes({"window": {"kind": "tumbling", "size-ms": 1}}, {"window": {"kind": "tumbling", "size-ms": 2}})
    'window.size-ms was 1 and is 2'
    """
    return ", ".join(f"{path or 'it'} was {old} and is {new}" for path, old, new in _differences("", before, now))


def fingerprint_text(fingerprint: object) -> str:
    """Return a fingerprint as one line of JSON with sorted names."""
    return json.dumps(fingerprint, ensure_ascii=False, sort_keys=True)


def _differences(path: str, before: object, now: object) -> Iterator[tuple[str, str, str]]:
    if before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in sorted(before.keys() | now.keys()):
            inner = f"{path}.{name}" if path else str(name)
            yield from _differences(inner, before.get(name), now.get(name))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _differences(f"{path}[{number}]", old, new)
    else:
        yield path, _value(before), _value(now)


def _value(value: object) -> str:
    return "not set" if value is None else fingerprint_text(value)
