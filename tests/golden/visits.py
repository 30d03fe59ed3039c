"""The job of the golden savepoints, its input before and after them, and its answer in plain Python.

The job has one step of each kind of state: a map function with a list; a process function with values, maps and timers;
an aggregate that keeps rows; an aggregate that keeps registers.
"""

from pathlib import Path
from typing import Any

from mixedmode.job import Job, Sink, Source
from tests.differential.oracle import Call, Table, aggregate
from tests.harness import SPARK, Row

#: where the input was when a golden savepoint was made, in a neutral folder, since Spark's log names it
MADE_IN = "/tmp/golden/in"
SCHEMA = "user string, shop string, at timestamp"
DAY = "2001-01-01"
FIRST_HOUR = 271_752  # of that day, since 1970

#: what the job reads in the backlog, and in the epoch after which the savepoint is taken
BACKLOG = [(f"user {i % 9}", f"shop {i * 5 % 4}", i * 7 % 300) for i in range(60)]
LIVE = [(f"user {i % 11}", f"shop {i % 4}", 240 + i * 11 % 200) for i in range(40)]
#: what it reads when it goes on
AFTER = [(f"user {i % 12}", f"shop {i * 3 % 4}", 380 + i * 13 % 250) for i in range(50)]

Visit = tuple[str, str, int]  # user, shop, minute of the day


def job(base: Path, *, out: Path | None = None, function: str = "Visits", **settings: Any) -> Job:
    """The job with its folders below `base`."""
    defaults: dict[str, Any] = {"mode": "mixed", "parallelism": 2, "max_parallelism": 8, "spark": SPARK}
    source = Source.json(base / "in", schema=SCHEMA, event_time="at", out_of_orderness="3h")
    visits = Job("visits", sources={"t": source}, checkpoint_dir=base / "checkpoints", **{**defaults, **settings})
    visits = visits.map("tests.golden.functions:Counted", output=SCHEMA, name="counted")
    visits = visits.key_by("user", name="visits").process(
        f"tests.golden.functions:{function}", output="home string, hour bigint, n bigint"
    )
    visits = visits.key_by("home", "hour").aggregate(users="count(*)", n="sum(n)", most="max(n)")
    visits = visits.key_by("home").aggregate(hours="count(*)", users="sum(users)", n="sum(n)")
    return visits.write(Sink.parquet(out or base / "out"))


def records(visits: list[Visit]) -> list[Row]:
    """Visits as records of the source."""
    return [
        {"user": user, "shop": shop, "at": f"{DAY} {minute // 60:02}:{minute % 60:02}:00"}
        for user, shop, minute in visits
    ]


def answer(*, note: str = "") -> Table:
    """The answer over all visits, all hours being over. `note` is what the later version adds to users of AFTER.

    Epochs come one after the other, and the records of a key in the order of their times: so a user's first shop is
    the first one of the first epoch in which the user is.
    """
    homes: dict[str, str] = {}
    for epoch in (BACKLOG, LIVE, AFTER):
        for user, shop, _ in sorted(epoch, key=lambda visit: visit[2]):
            homes.setdefault(user, shop)
    noted = {user for user, _, _ in AFTER}
    by_hour: dict[tuple[str, int], int] = {}
    for user, _, minute in (*BACKLOG, *LIVE, *AFTER):
        hour = FIRST_HOUR + minute // 60 + 1
        by_hour[user, hour] = by_hour.get((user, hour), 0) + 1
    rows = [
        {"home": homes[user] + (note if user in noted and hour > fired_before() else ""), "hour": hour, "n": n}
        for (user, hour), n in by_hour.items()
    ]
    calls = {"users": Call("count"), "n": Call("sum", "n"), "most": Call("max", "n")}
    per_hour = list(aggregate(rows, ["home", "hour"], calls).values())
    return aggregate(per_hour, ["home"], {"hours": Call("count"), "users": Call("sum", "users"), "n": Call("sum", "n")})


def fired_before() -> int:
    """The last hour that was over when the savepoint was taken: the watermark is 3 h behind the newest visit."""
    newest = max(minute for _, _, minute in (*BACKLOG, *LIVE))
    return FIRST_HOUR + (newest - 180) // 60
