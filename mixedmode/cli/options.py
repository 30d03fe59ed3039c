"""The arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

JobFile = Annotated[
    Path,
    typer.Argument(
        help="The job file (YAML, or SQL if its name ends in .sql), or spark-pipeline.yml.", show_default=False
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of the job file; repeatable.")
]
