"""A whole document of invented numbers, with everything in it that can be shown."""

from collections.abc import Iterable, Mapping

from mixedmode_bench.contestant import EpochSpan, Outcome
from mixedmode_bench.results import Document, Entry, Figure, Machine, Measured, Ratio, Run

MIB = 1 << 20
NOISE = (2.1, 0.97, 1.0, 1.06)  # of the rounds, the first of which is the cold one
JVM, DRIVER, WORKERS = "JVM", "driver", "Python worker"

TITLES = {
    "mixed": "mixedmode, mixed",
    "streaming": "mixedmode, streaming",
    "batch": "mixedmode, batch",
    "spark-batch": "Spark batch",
    "spark-streaming": "Spark Structured Streaming, RocksDB with changelog",
    "transform-with-state": "Spark transformWithState in Python",
    "transform-with-state-initial": "Spark transformWithState in Python, initialState",
    "flink-streaming": "Flink, streaming, RocksDB, no checkpoints",
    "flink-batch": "Flink, batch, keeps no state",
    "duckdb": "DuckDB, keeps no state",
}
PROFILE = {
    "read input": 0.9,
    "fold": 1.35,
    "collect blocks": 0.42,
    "make blocks": 0.3,
    "wait for blocks": 0.61,
    "sort": 0.35,
    "process": 0.62,
    "write state": 0.48,
    "store state": 0.2,
    "write output": 0.22,
    "driver: tasks": 2.22,
    "driver: commit": 0.03,
    "driver: publish": 0.02,
}


def entry(
    name: str,
    seconds: float,
    events: int,
    *,
    peaks: Mapping[str, int] | None = None,
    parts: Mapping[str, float] | None = None,
    epochs: Iterable[EpochSpan] = (),
    profile: Mapping[str, float] | None = None,
    noise: tuple[float, ...] = NOISE,
) -> Entry:
    runs = tuple(
        Run(
            number,
            Outcome(
                seconds * factor,
                {part: value * factor for part, value in (parts or {}).items()},
                tuple(EpochSpan(s.start_s * factor, s.end_s * factor, s.events, s.is_backlog) for s in epochs),
                profile or {},
            ),
            {role: size * MIB for role, size in (peaks or {JVM: 2_100, DRIVER: 310}).items()},
            int(seconds * 40 * MIB),
        )
        for number, factor in enumerate(noise)
    )
    return Entry(name, TITLES[name], name in ("mixed", "streaming", "batch"), events, runs)


def ratio(above: Entry, below: Entry, at_least: float | None = None, at_most: float | None = None) -> Ratio:
    values = tuple(
        a.outcome.seconds / above.events / (b.outcome.seconds / below.events) * wobble
        for a, b, wobble in zip(above.runs[1:], below.runs[1:], (0.96, 1.0, 1.05), strict=False)
    )
    return Ratio(above.contestant, below.contestant, values, at_least, at_most)


def count_sum() -> Measured:
    events = 10_000_000
    ours = {JVM: 1_450, DRIVER: 420, WORKERS: 780}
    mixed = entry(
        "mixed",
        2.31,
        events,
        peaks=ours,
        parts={"start": 0.14, "backlog": 2.02, "flip": 0.15, "whole run": 2.9},
        epochs=[EpochSpan(0.14, 2.16, events, is_backlog=True)],
        profile=PROFILE,
    )
    micro = [EpochSpan(0.3 + 5.8 * n, 5.9 + 5.8 * n, events // 8, is_backlog=True) for n in range(8)]
    others = (
        (entry("streaming", 11.8, events, peaks=ours), None),
        (entry("spark-batch", 6.4, events, peaks={JVM: 3_100, DRIVER: 190}), 2),
        (entry("spark-streaming", 47.2, events, peaks={JVM: 3_900, DRIVER: 190}, epochs=micro), 15),
        (entry("transform-with-state", 104.0, 1_000_000, peaks={JVM: 2_700, DRIVER: 190, WORKERS: 510}), 200),
        (entry("flink-streaming", 31.5, events, peaks={JVM: 5_400, DRIVER: 210}), 16),
        (entry("flink-batch", 8.9, events, peaks={JVM: 4_800, DRIVER: 210}), 3),
    )
    floor = entry("duckdb", 0.72, events, peaks={DRIVER: 640})
    ratios = [ratio(other, mixed, at_least=target) for other, target in others]
    entries = (mixed, *(other for other, _ in others), floor)
    left_out = {"transform-with-state-initial": "it begins with state, and this workload has none"}
    ratios.append(ratio(mixed, floor, at_most=4))
    title = "count(*) and sum(double) by a long key, as in FLIP-327"
    return Measured("count-sum", title, events, 1_000_000, 122 * MIB, entries, tuple(ratios), left_out)


def live() -> Measured:
    events = 3_200_000
    parts = {"start to flip": 1.6, "first live epoch": 0.9, "large epoch": 0.71, "small epoch": 0.22, "whole run": 9.5}
    slower = {"start to flip": 9.7, "first live epoch": 3.4, "large epoch": 2.9, "small epoch": 0.61, "whole run": 41.0}
    mixed = entry("mixed", 6.6, events, parts=parts, epochs=_life(0.2, 1.4, 1, 0.71, 0.22), profile=PROFILE)
    spark = entry("spark-streaming", 23.9, events, parts=slower, epochs=_life(0.3, 1.1, 8, 2.9, 0.61))
    figures = (
        Figure("large epochs", "mixed", "events/s", (690_000.0, 704_000.0, 655_000.0), at_least=500_000),
        Figure("small epochs", "mixed", "s", (0.22, 0.21, 0.4), at_most=0.2),
    )
    ratios = (Ratio("spark-streaming", "mixed", (4.1, 4.0, 4.3), at_least=3, of="large epochs"), ratio(spark, mixed))
    title = "live epochs over a state of 2 M keys"
    return Measured("live", title, events, 2_000_000, 60 * MIB, (mixed, spark), ratios, {}, figures)


def scaling() -> list[Measured]:
    sizes = [(10_000_000, 10**power) for power in range(4, 8)] + [(10**power, 1_000_000) for power in (6, 8)]
    found = []
    for events, keys in sizes:
        share = keys / events
        entries = (
            entry("mixed", 0.5 + events * (1.1e-7 + 5e-7 * share), events, noise=(2.0, 1.0)),
            entry("spark-batch", 0.9 + events * (4.1e-7 + 9e-7 * share), events, noise=(2.0, 1.0)),
            entry("duckdb", 0.05 + events * (4e-8 + 1.3e-7 * share), events, noise=(2.0, 1.0)),
        )
        title = "count(*) and sum(double) by a long key, as in FLIP-327"
        found.append(Measured("scaling", title, events, keys, 1, entries, is_full=False))
    return found


def document() -> Document:
    machine = Machine(
        2,
        24 << 30,
        "Example Processor 9000",
        "Linux 6.1",
        {"mixedmode": "0.1.0", "python": "3.11.9", "pyspark": "4.3.0", "duckdb": "2.0.0", "java": "17.0.15"},
    )
    command = "mixedmode bench count-sum live scaling --rounds 3 --cores 2"
    return Document(command, "2026-05-04T11:22:33+00:00", 3, machine, (count_sum(), live(), *scaling()))


def _life(start: float, backlog: float, backlog_epochs: int, large: float, small: float) -> list[EpochSpan]:
    """A backlog in so many epochs, then a first, five large and ten small live epochs, one at a time."""
    spans = []
    for seconds, events, is_backlog in (
        *[(backlog, 2_000_000 // backlog_epochs, True)] * backlog_epochs,
        *[(large, 500_000, False)] * 6,
        *[(small, 20_000, False)] * 10,
    ):
        spans.append(EpochSpan(start, start + seconds, events, is_backlog=is_backlog))
        start += seconds + (0.05 if is_backlog else 0.12)
    return spans
