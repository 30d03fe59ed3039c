"""An installation brings one top-level package; its operators are the folder at the top of the repository."""

import subprocess
import sys
from pathlib import Path

import mixedmode.operators

ROOT = Path(__file__).parents[1]


def test_the_operators_of_the_package_are_those_at_the_top_of_the_repository() -> None:
    assert Path(mixedmode.operators.__file__).resolve() == ROOT / "operators" / "__init__.py"


def test_modules_of_a_user_do_not_stand_in_for_ours(tmp_path: Path) -> None:
    for name in ("operators", "bench", "tests", "config", "state", "job"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the module of the user was imported')\n")
    code = "import mixedmode.cli.app, mixedmode.operators.aggregate, mixedmode.driver.run, mixedmode.job"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
