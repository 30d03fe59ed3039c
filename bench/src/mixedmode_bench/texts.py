"""Format figures, the same on the terminal, in charts and on the page: three digits, and the unit.

Three digits are all that a noisy machine can tell, and a unit that fits keeps them readable.
"""

from mixedmode_bench.results import Machine, Measured
from mixedmode_bench.summary import Goal, Spread

_MEASURES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds_text(seconds: float) -> str:
    """104 s, 23.9 s, 2.31 s, 22.0 ms."""
    return f"{_three(seconds * 1e3)} ms" if seconds < 0.09995 else f"{_three(seconds)} s"


def event_text(seconds: float) -> str:
    """The time of one event: 104 us, 4.72 us, 231 ns, with the letter mu for u."""
    return f"{_three(seconds * 1e6)} \N{MICRO SIGN}s" if seconds >= 0.9995e-6 else f"{_three(seconds * 1e9)} ns"


def count_text(count: float) -> str:
    """4.33 M, 96.2 k, 850; a round number without digits after the point: 10 M."""
    for size, measure in _MEASURES:
        if count >= size * 0.9995:
            value = count / size
            return f"{value:.0f} {measure}" if value == round(value) else f"{_three(value)} {measure}"
    return f"{count:.0f}" if count == round(count) else _three(count)


def times_text(value: float) -> str:
    """A multiple: 450x, 20.4x, 2.77x."""
    return f"{_three(value)}x"


def bytes_text(size: float) -> str:
    """900 KiB, 122 MiB, 1.42 GiB."""
    if size < 2**20:
        return f"{size / 2**10:,.0f} KiB"
    return f"{_three(size / 2**30)} GiB" if size >= 2**30 else f"{size / 2**20:,.0f} MiB"


def machine_text(machine: Machine) -> str:
    """Return the machine of a measurement for a reader."""
    return f"{machine.processor}, {machine.cores} cores, {bytes_text(machine.memory_bytes)}, {machine.system}"


def size_text(measured: Measured) -> str:
    """Return the size of a workload: its events, its keys and the bytes of its input."""
    return f"{count_text(measured.events)} events, {count_text(measured.keys)} keys, {bytes_text(measured.input_bytes)}"


def rounded(text: str) -> str:
    """A figure of an axis, without zeros after the point: 1.20 M becomes 1.2 M, 1.00 us becomes 1 us."""
    number, _, unit = text.partition(" ")
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{number} {unit}".rstrip()


def goal_text(value: float, unit: str) -> str:
    """In the unit of a target: "x", "s" or "events/s"."""
    if unit == "x":
        return times_text(value)
    return seconds_text(value) if unit == "s" else f"{count_text(value)}/s"


def spread_text(value: Spread, unit: str) -> str:
    """The least and the most, with the unit once where it is the same: 2.66 .. 2.91x. Nothing for a single value."""
    if value.low == value.high:
        return ""
    low, high = goal_text(value.low, unit), goal_text(value.high, unit)
    measure = high.lstrip("0123456789.,")
    return f"{low.removesuffix(measure)} .. {high}"


def bound_text(goal: Goal) -> str:
    """The target: what it should be at least, or at most."""
    bounds = [(">=", goal.at_least), ("<=", goal.at_most)]
    return " ".join(f"{sign} {_bound(bound, goal.unit)}" for sign, bound in bounds if bound is not None)


def _bound(value: float, unit: str) -> str:
    return f"{count_text(value)}/s" if unit == "events/s" else f"{value:g}{'x' if unit == 'x' else ' s'}"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.0995 or not value else f"{value:.2g}"
