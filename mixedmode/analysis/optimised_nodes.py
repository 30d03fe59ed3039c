"""Nodes of a query, of which some follow from constants and some are in another order, as after Spark's optimiser.

What the optimiser does is seen where a value cannot be computed: an argument that Spark leaves out raises no error,
and the order of a sum decides which of its parts overflow. The values are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import pyarrow as pa

from mixedmode.expressions import Call, Literal, Node, Nodes, can_raise, is_exact, is_null_of_null, is_partial

__all__ = ["OptimisedNodes"]


class OptimisedNodes(Nodes):
    """Nodes as they are added.  may_leave: calls may leave some values to Spark (LeftToSparkError)."""

    def __init__(self, *, may_leave: bool) -> None:
        super().__init__()
        self._may_leave = may_leave

    def call(self, call: Call, text: Callable[[], str], is_nullable: Callable[[], bool]) -> int | None:
        """Return the number of the node that a call is; None if only Spark computes it.

        text: returns its SQL. is_nullable: returns whether Spark thinks that it may be NULL.

        Spark joins nested sums of whole numbers, and puts their constants, as one, at the end: (1 + x) + (y + 2) is
        (x + y) + 3. It does the same with products, of which one with 0 is 0 if it is never NULL.
        """
        operands = self._operands(call)
        constants = [node.value for one in operands if isinstance(node := self[one], Literal)]
        numbers = [value for value in constants if isinstance(value, int)]
        is_whole = pa.types.is_signed_integer(call.data_type)
        if call.kind == "Multiply" and is_whole and 0 in numbers and not is_nullable():
            return self.add(Literal(0, call.data_type))
        is_plain = len(operands) == len(call.arguments) or not numbers or len(numbers) < len(constants)
        if is_plain or not is_whole:
            return self._call(call, text)
        constant = sum(numbers) if call.kind == "Add" else prod(numbers)
        limit = 2 ** (call.data_type.bit_width - 1)
        if not -limit <= constant < limit:
            return None
        in_order = [one for one in operands if not isinstance(self[one], Literal)]
        in_order.append(self.add(Literal(constant, call.data_type)))
        found: int | None = in_order[0]
        for other in in_order[1:]:
            found = None if found is None else self._call(replace(call, arguments=(found, other)), text)
        return found

    def _operands(self, call: Call) -> Sequence[int]:
        """Return the numbers of the operands of a sum, and of the sums in it; likewise of a product."""
        if call.kind not in ("Add", "Multiply"):
            return call.arguments
        found: list[int] = []
        for number in call.arguments:
            node = self[number]
            is_same = isinstance(node, Call) and (node.kind, node.data_type) == (call.kind, call.data_type)
            found += self._operands(node) if is_same and isinstance(node, Call) else [number]
        return found

    def _call(self, call: Call, text: Callable[[], str]) -> int | None:
        arguments = [self[number] for number in call.arguments]
        known = self._known(call, arguments)
        if known is not None:
            return known
        if not is_exact(call, arguments) or (is_partial(call) and not self._may_leave):
            return None
        return self.add(replace(call, text=text()) if can_raise(call, arguments) else call)

    def _known(self, call: Call, arguments: Sequence[Node]) -> int | None:
        """Return the node that a call with a constant argument is; None if it depends on other arguments.

        Spark knows it before it computes any row. So it never computes the other arguments, of which a value may raise.
        """
        constants = [node.value for node in arguments if isinstance(node, Literal)]
        found: bool | None = None
        match call.kind:
            case "If" if isinstance(arguments[0], Literal):
                return call.arguments[1 if arguments[0].value else 2]
            case "If" if call.arguments[1] == call.arguments[2]:
                return call.arguments[1]
            case "And" | "Or" if (call.kind == "Or") in constants:
                found = call.kind == "Or"
            case "IsNull" | "IsNotNull" if constants:
                found = (constants[0] is None) == (call.kind == "IsNull")
            case "Not" if constants:
                found = None if constants[0] is None else not constants[0]
            case _ if not (None in constants and is_null_of_null(call)):
                return None
        return self.add(Literal(found, call.data_type))
