"""Text, by code point. `upper` is not here: it needs a table of Unicode, and Spark and Arrow have different ones."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from mixedmode.expressions.kernels import Kernel, has_types
from mixedmode.expressions.values import Call, Literal, Node, Value

__all__ = ["TEXTS"]

_TO_THE_END = 2**31 - 1


def _length(_call: Call, given: Sequence[Value]) -> Value:
    length = pc.utf8_length if types.is_string(given[0].type) else pc.binary_length
    return pc.cast(length(given[0]), pa.int32())


def _substring(_call: Call, given: Sequence[Value]) -> Value:
    text, position, length = given[0], given[1].as_py(), given[2].as_py()
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


TEXTS: Mapping[str, Kernel] = {
    "Length": Kernel(_length, has_types(types.is_string, types.is_binary)),
    "Substring": Kernel(_substring, _accepts_substring),
    "Concat": Kernel(_concat, has_types(types.is_string), takes_null=True),
}
