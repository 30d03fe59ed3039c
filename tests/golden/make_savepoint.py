"""Make the golden savepoint of a new format: `python -m tests.golden.make_savepoint tests/golden/savepoint-<format>`.

To be run when the format of anything in a savepoint has changed, before the release that writes it. Those that are
there stay: they are what earlier versions have left. The job runs in a neutral folder, as Spark's log names its input.
"""

import shutil
import sys
from pathlib import Path

from mixedmode.checkpoint.savepoint import create_savepoint
from mixedmode.checkpoint.store import ObjectStore
from mixedmode.spark.session import open_session
from tests.golden import visits
from tests.harness import checkpoint_log, run, write_json

BASE = Path(visits.MADE_IN).parent  # emptied first
MADE_MS = 1_000_000_000_000


def main(target: Path) -> None:
    """Run the job up to the savepoint, and take it."""
    shutil.rmtree(BASE, ignore_errors=True)
    job = visits.job(BASE)
    write_json(BASE / "in", "backlog.json", visits.records(visits.BACKLOG))
    run(job, open_session(job.spec), feed=[lambda: write_json(BASE / "in", "live.json", visits.records(visits.LIVE))])
    made = create_savepoint(checkpoint_log(BASE / "checkpoints"), ObjectStore(target), now_ms=MADE_MS)
    print(f"{target}: epoch {made.epoch}, {len(made.files)} files, {made.bytes} bytes")  # noqa: T201
    shutil.rmtree(BASE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
