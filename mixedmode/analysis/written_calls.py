"""The calls of aggregates in Spark's plans, as a person writes them: without what Spark adds to their texts."""

import re

from mixedmode.config.call_texts import closing, pieces

__all__ = ["as_written"]

_DOUBLE = re.compile(r"CAST\(([\d.]+)(?:BD)? AS DOUBLE\)|([\d.E-]+)D")  # a number that is read as a double
_ONCE = "1L"  # how often each value of percentile(x, p) counts
_WITHIN = " WITHIN GROUP"
_COUNT_ALL = "count(1)"


def as_written(call: str) -> str:
    """Return the text of a call as a person writes it. Numbers after its argument are plain ones.

    >>> as_written("percentile(v, CAST(0.5BD AS DOUBLE), 1L)")
    'percentile(v, 0.5)'
    >>> as_written("percentile_cont(CAST(0.5BD AS DOUBLE)) WITHIN GROUP (ORDER BY v)")
    'percentile_cont(0.5) WITHIN GROUP (ORDER BY v)'
    """
    if call.startswith(_COUNT_ALL):
        return call.replace(_COUNT_ALL, "count(*)", 1)
    function = call.partition("(")[0]
    start = len(function) + 1
    end = closing(call, start)
    texts = [text.strip() for text in pieces(call[start:end], call)]
    first = 0 if call[end + 1 :].startswith(_WITHIN) else 1  # there, the argument is in WITHIN GROUP
    texts[first:] = [_DOUBLE.sub(r"\1\2", text) if _DOUBLE.fullmatch(text) else text for text in texts[first:]]
    if function == "percentile" and texts[-1] == _ONCE:
        texts.pop()
    return f"{function}({', '.join(texts)}{call[end:]}"
