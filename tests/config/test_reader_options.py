"""Options of Spark's file readers in a job: a name or a value that Spark would pass over is refused."""

from collections.abc import Mapping

import pytest

from mixedmode.config.reader_options import ALLOWED_IN_JOB, LOSSY_SETTINGS, known_options, setting_problem
from mixedmode.config.spec import JobSpec
from mixedmode.connectors.files.source_spec import FileSourceSpec
from tests.config.refusals import SMALLEST_JOB, messages


def values(
    file_format: str, options: Mapping[str, object], schema: str = "k string, broken string"
) -> dict[str, object]:
    return {"format": file_format, "path": "/in", "schema": schema, "options": dict(options)}


def refused(file_format: str, option: str, value: object, **others: object) -> str:
    (message,) = messages(FileSourceSpec, values(file_format, {option: value, **others}))
    return message


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet"])
def test_every_option_that_is_one_letter_short_is_refused_with_its_name(file_format: str) -> None:
    known = {name.lower() for name in known_options(file_format)}
    for option in known_options(file_format):
        short = option[:-1]
        if short.lower() in known:
            continue
        message = refused(file_format, short, "x")
        assert message.startswith(f"options.{short} is not an option of Spark's reader of {file_format} files"), message
        assert "Did you mean" in message, message


@pytest.mark.parametrize(
    "mode", ["FAILFASTT", "FAIL_FAST", "failfast ", "", "permisive", "DROPMALFORMED", "dropmalformed"]
)
def test_a_mode_other_than_the_two_that_keep_records_is_refused(mode: str) -> None:
    assert "options.mode" in refused("json", "mode", mode)


def test_a_mode_that_is_nearly_right_is_named() -> None:
    assert refused("csv", "mode", "FAILFASTT") == (
        "options.mode is not a mode; Spark would read it as PERMISSIVE, which makes NULLs of what does not parse. "
        "Did you mean FAILFAST? Write FAILFAST or PERMISSIVE. found=FAILFASTT"
    )


@pytest.mark.parametrize(
    "option", ["ignoreCorruptFiles", "IGNOREMISSINGFILES", "ignoreInvalidPartitionPaths", "fileNameOnly"]
)
def test_an_option_that_loses_records_is_refused_and_may_be_false(option: str) -> None:
    assert "would lose records without a message" in refused("parquet", option, True)
    FileSourceSpec.model_validate(values("parquet", {option: False}))


def test_a_flag_is_true_or_false() -> None:
    assert refused("csv", "header", "yes") == "options.header must be true or false. found=yes"


def test_a_column_of_corrupt_records_needs_its_mode_and_its_column() -> None:
    assert "no effect unless mode is PERMISSIVE" in refused("json", "columnNameOfCorruptRecord", "broken")
    message = refused("json", "columnNameOfCorruptRecord", "bad", mode="PERMISSIVE")
    assert message.endswith("Add it: `bad string`.")
    FileSourceSpec.model_validate(values("json", {"columnNameOfCorruptRecord": "Broken", "mode": "permissive"}))


def test_settings_of_file_systems_may_be_options() -> None:
    FileSourceSpec.model_validate(values("parquet", {"fs.s3a.endpoint": "x", "mergeSchema": True}))


def test_a_job_file_may_give_up_files_that_are_gone() -> None:
    JobSpec.model_validate({**SMALLEST_JOB, "spark": {ALLOWED_IN_JOB: True}})


@pytest.mark.parametrize("setting", [name for name in LOSSY_SETTINGS if name != ALLOWED_IN_JOB])
def test_a_setting_of_spark_that_loses_records_is_refused(setting: str) -> None:
    (message,) = messages(JobSpec, {**SMALLEST_JOB, "spark": {setting: "True"}})
    assert message.startswith(f"{setting} would lose records without a message: ")
    assert setting_problem(setting, "false") is None
    JobSpec.model_validate({**SMALLEST_JOB, "spark": {setting: False}})
