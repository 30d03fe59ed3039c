"""Text, by code point. What depends on the characters of text that is not UTF-8 is left to Spark.

`upper`, `lower` and regular expressions compute ASCII only, and leave other text to Spark: tables of Unicode's letters
have versions, and Spark and Arrow have different ones. Of regular expressions only a small language is here, which
means the same to Java and to RE2.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from mixedmode.errors import LeftToSparkError
from mixedmode.expressions.kernels import Kernel, has_types
from mixedmode.expressions.values import Call, Literal, Node, Value

__all__ = ["TEXTS", "TEXT_PARTS"]

TEXT_PARTS = pa.list_(pa.string())  # of split_part, for which Spark has an array; there are no other arrays here
#: literals, classes of them, groups, alternatives and the beginning of the text; a group is never repeated
_PATTERN = re.compile(r"(?:(?:[\w=&/,:;@ -]|\[\^?[\w=&/,:;@ ]\])[*+?]?|\((?!\?)|\)(?![*+?{])|\||\^)+", re.ASCII)
_TO_THE_END = 2**31 - 1


def _length(call: Call, given: Sequence[Value]) -> Value:
    is_text = types.is_string(given[0].type)
    length = pc.utf8_length(_characters(call, given[0])) if is_text else pc.binary_length(given[0])
    return pc.cast(length, pa.int32())


def _substring(call: Call, given: Sequence[Value]) -> Value:
    text, position, length = _characters(call, given[0]), given[1].as_py(), given[2].as_py()
    start = position - 1 if position > 0 else position
    if length == _TO_THE_END:
        return pc.utf8_slice_codeunits(text, start)
    return pc.utf8_slice_codeunits(text, start, max(start, start + length))


def _accepts_substring(_call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether position and length are constants, and a position from the end has all that follows.

    Spark adds the least position to the length of the text, which overflows.
    """
    text, position, length = arguments
    if not (types.is_string(text.data_type) and isinstance(position, Literal) and isinstance(length, Literal)):
        return False
    if not (isinstance(position.value, int) and isinstance(length.value, int)):
        return False
    return position.value >= 0 or (length.value == _TO_THE_END and position.value >= -_TO_THE_END)


def _concat(_call: Call, given: Sequence[Value]) -> Value:
    return pc.binary_join_element_wise(*given, pa.scalar(""), null_handling="emit_null")


def _split(call: Call, given: Sequence[Value]) -> Value:
    return pc.split_pattern(_characters(call, given[0]), pattern=given[1].as_py())


def _like(call: Call, given: Sequence[Value]) -> Value:
    return pc.match_like(_characters(call, given[0]), given[1].as_py())


def _accepts_like(call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether LIKE has a constant pattern without an escape."""
    text = arguments[1]
    if not (isinstance(text, Literal) and isinstance(text.value, str) and types.is_string(arguments[0].data_type)):
        return False
    return "\\" not in text.value and call.options[0] not in text.value


def _part(_call: Call, given: Sequence[Value]) -> Value:
    """Return the part of a number from 1, or from -1 backwards; an empty text if there are fewer parts."""
    parts, number = given[0], given[1].as_py()
    ends = parts.offsets.to_numpy()
    places = ends[:-1] + number - 1 if number > 0 else ends[1:] + number
    exists = (places >= ends[:-1]) & (places < ends[1:])
    found = parts.values.take(pa.array(np.where(exists, places, 0), mask=~exists))
    return pc.if_else(parts.is_valid(), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _accepts_part(_call: Call, arguments: Sequence[Node]) -> bool:
    """Return whether the parts are those of split_part, and the number is a constant; Spark refuses 0."""
    parts, number = arguments
    return parts.data_type == TEXT_PARTS and isinstance(number, Literal) and bool(number.value)


def _characters(call: Call, texts: pa.Array) -> pa.Array:
    """Return texts, which are UTF-8. Raise LeftToSparkError if one is not: what its characters are, only Spark says."""
    try:
        pc.cast(pc.cast(texts, pa.binary()), texts.type)  # the cast to text validates
    except pa.ArrowInvalid as error:
        msg = f"text that is not UTF-8, in {call.kind}"
        raise LeftToSparkError(msg) from error
    return texts


def _ascii(call: Call, texts: Value) -> Value:
    """Return texts. Raise LeftToSparkError if one is not ASCII."""
    if pc.any(pc.invert(pc.string_is_ascii(texts))).as_py():
        msg = f"text that is not ASCII, in {call.kind}"
        raise LeftToSparkError(msg)
    return texts


def _extract(call: Call, given: Sequence[Value]) -> Value:
    """Return the text of a group of the first match; an empty text without a match, or if the group has none."""
    texts, pattern, group = _ascii(call, given[0]), given[1].as_py(), given[2].as_py()
    numbers = iter(range(1, pattern.count("(") + 1))
    named = re.sub(r"\(", lambda _match: f"(?P<g{next(numbers)}>", pattern)
    found = pc.struct_field(pc.extract_regex(texts, f"(?P<g0>{named})"), f"g{group}")
    return pc.if_else(pc.is_valid(texts), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def _accepts_extract(_call: Call, arguments: Sequence[Node]) -> bool:
    text, pattern, group = arguments
    if not (types.is_string(text.data_type) and isinstance(pattern, Literal) and isinstance(group, Literal)):
        return False
    if not (isinstance(pattern.value, str) and isinstance(group.value, int)):
        return False
    return _is_pattern(pattern.value) and 0 <= group.value <= pattern.value.count("(")


def _is_pattern(text: str) -> bool:
    """Return whether a text is a regular expression of the small language."""
    if _PATTERN.fullmatch(text) is None:
        return False
    try:
        re.compile(text)
    except re.error:  # such as an open group
        return False
    return True


TEXTS: Mapping[str, Kernel] = {
    "Length": Kernel(_length, has_types(types.is_string, types.is_binary)),
    "Substring": Kernel(_substring, _accepts_substring),
    "StringSplitSQL": Kernel(
        _split, lambda _call, arguments: isinstance(arguments[1], Literal) and bool(arguments[1].value)
    ),
    "Lower": Kernel(
        lambda call, given: pc.ascii_lower(_ascii(call, given[0])), has_types(types.is_string), is_partial=True
    ),
    "Upper": Kernel(
        lambda call, given: pc.ascii_upper(_ascii(call, given[0])), has_types(types.is_string), is_partial=True
    ),
    "RegExpExtract": Kernel(_extract, _accepts_extract, is_partial=True),
    "ElementAt": Kernel(_part, _accepts_part),
    "Like": Kernel(_like, _accepts_like),
    "Concat": Kernel(_concat, has_types(types.is_string), takes_null=True),
}
