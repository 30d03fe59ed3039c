"""A struct of values, such as the start and the end of a window."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from mixedmode.expressions.kernels import Kernel
from mixedmode.expressions.values import Call, Value

__all__ = ["NAMED_STRUCT", "STRUCTS"]

#: the kind of `named_struct`; its arguments are the values, and the names are those of its type
NAMED_STRUCT = "CreateNamedStruct"


def _struct(call: Call, given: Sequence[Value]) -> Value:
    length = next(len(one) for one in given if isinstance(one, pa.Array))
    columns = [pa.repeat(one, length) if isinstance(one, pa.Scalar) else one for one in given]
    return pa.StructArray.from_arrays(columns, fields=list(call.data_type))


STRUCTS: Mapping[str, Kernel] = {NAMED_STRUCT: Kernel(_struct, lambda _call, _arguments: True, takes_null=True)}
