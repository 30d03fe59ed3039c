"""Translates Spark's exceptions into MixedmodeErrors that tell the user what to do.

Besides it, jvm.py reads what a start of Spark prints, damaged.py and custom_errors.py read some texts for it, and
errors.py of a connector knows the texts of its libraries. No other module reads texts of Spark.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import SparkSession

from mixedmode.config.registry import connector_kinds, loaded
from mixedmode.config.spelling import did_you_mean
from mixedmode.errors import CorruptStateError, InvalidJobError, MixedmodeError, RetryableError
from mixedmode.secrets import has_secrets, hidden
from mixedmode.spark.custom_errors import custom_problem
from mixedmode.spark.damaged import WRONG_RECORD, damaged_file
from mixedmode.spark.jvm import ended_message, has_ended
from mixedmode.spark.settings import LOGS
from mixedmode.spark.socket_folder import lost_folder
from mixedmode.system_errors import DISK_TEXTS, system_error, system_words

#: what PySpark raises where Spark refuses SQL or DDL; the second one if PySpark does not know the class of the error
REFUSALS = (PySparkException, Py4JJavaError)
STREAM_IN_SUBQUERY = "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY"  # the condition of an error

#: {Spark's condition for a function that it does not know: the parameter of its message with the function's name}
_UNKNOWN_FUNCTION = {"UNRESOLVED_ROUTINE": "routineName", "UNRESOLVABLE_TABLE_VALUED_FUNCTION": "name"}

_CALL = re.compile(r"^An error occurred while calling \S+\n: [\w.$]+: ")
_PLAN_DUMP = re.compile(r"\n\s*(['+~=]|==)")
_SQLSTATE = re.compile(r"\s*SQLSTATE:\s*\w+")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
#: what a task says of an error that the start after it may not have; it names the folder that is full, for example
_OWN = re.compile(r"^(?:\w+\.)*RetryableError: (.+)$", re.MULTILINE)
# SQLSTATE class 22, errors of values: division by zero, a failed cast, a number too large for its type
_DATA_ERROR = re.compile(r"\[(?!STREAM_FAILED)[A-Z0-9_.]+\] ((?:(?!\n\tat ).)*?) SQLSTATE: 22\w{3}", re.DOTALL)
_MALFORMED_RECORD = re.compile("MALFORMED_RECORD|BadRecordException")
_MALFORMED = re.compile(r"Malformed records? (?:are|is) detected in record parsing: (.*)")
_TOO_MANY_VALUES = re.compile(r"\[MALFORMED_CSV_RECORD\] Malformed CSV record: (.{0,200})")
# messages on Spark's own damaged log; seen only if a start compares no checksums, which find the damage earlier
_DAMAGED_LOG = re.compile(
    r"batch \d+ doesn't exist|\S+ doesn't exist \(latestId: \d+|Incomplete log file|Log file was malformed"
    r"|the metadata file is missing|terminated with exception: [^\n]*\n at \[Source: |Error reading stream metadata"
)
_WRONG_FILE = re.compile(
    r"Data type mismatches when reading Parquet column[^\n]*?(?= SQLSTATE)|Found duplicate field\(s\)[^\n]*? mode"
)
# Spark's messages when it fails to read a file of a source, without the condition for other types than the schema's.
# The cause is what a decompressor or the reader of the format says of damaged bytes, in many words.
_UNREADABLE_FILE = re.compile(r"\[FAILED_READ_FILE\.NO_HINT\]|\[CANNOT_READ_FILE_FOOTER\]")
_GONE_FILE = re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\]")
# causes outside the file for which it cannot be read, beside those of `system_words`
_UNREACHABLE_FILE = re.compile(
    r"java\.net\.|javax\.net\.|\.s3a\.|software\.amazon\.|AccessControlException|AccessDeniedException"
    r"|FileNotFoundException|Permission denied|Connection (?:reset|refused)|timed out|OutOfMemoryError"
)
_WRONG_FOLDER = re.compile(
    r"\[(?:INVALID_PARTITION_VALUE|CONFLICTING_PARTITION_COLUMN_NAMES|CONFLICTING_DIRECTORY_STRUCTURES)\] "
    r"((?:(?!\n\tat |\n\nIf provided).)*?)(?:\n\nIf provided|\.? SQLSTATE)",
    re.DOTALL,
)
# a frame of a micro-batch with other columns than the query: the folder had no folders of partitions when it began
_FIRST_FOLDER = re.compile(r"assertion failed: (Invalid batch: [^\n]*)")
_OTHER_SOURCES = re.compile(
    r"There are \[\d+\] sources in the checkpoint.*?\[\d+\]|Wrong basePath \S+ for the root path: \S+"
)
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] ((?:(?!\n\tat ).)*?) SQLSTATE: P0001", re.DOTALL)
_SETTING = re.compile(r'\[(?:INVALID_CONF_VALUE|CANNOT_MODIFY_CONFIG)\b|The value \S* in the config "')
_OTHER_PYTHON = re.compile(
    r"(\[PYTHON_VERSION_MISMATCH\][^\n]*"
    r"|No module named '?(?:mixedmode|operators|pyspark|pyarrow|rocksdict|msgspec)\b[^\n]*)"
)
#: what this process was about to write in Spark's log was just written by another one
_OTHER_START = re.compile(
    r"(?:FAILED_RENAME_PATH\] Failed to rename \S+ to (?=\S+/spark/\S+ as destination)"
    r"|Multiple streaming queries are concurrently using |Multiple streaming jobs detected for (?=\d))(\S+)"
)
#: the line of an exception: after the frames of Python, whatever its class is; anywhere, if it says that it is one
_EXCEPTION = re.compile(
    r"^(?:Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<python>\S.*)"
    r"|(?:Caused by: )?(?P<any>(?:\w+\.)*\w*(?:Error|Exception)\b: .*))$",
    re.MULTILINE,
)
_DISK = re.compile("|".join(DISK_TEXTS))
#: the file in Java's words, and in Python's
_DISK_FILE = re.compile(rf"(/[^\n:]*) \((?:{_DISK.pattern})\)|(?:{_DISK.pattern}): '([^'\n]+)'")
_FILE = re.compile(r"(?:Encountered error while reading file|Could not read footer for file:?) (\S+?)\.? ")
_FILE_OF_RECORD = re.compile(r"a record of a source is not what .* file=(\S+), record=", re.DOTALL)


def spark_text(error: BaseException) -> str:
    """Return Spark's message in one line, without plan, stack trace and SQLSTATE."""
    text = _CALL.sub("", str(error))
    text = _PLAN_DUMP.split(text, maxsplit=1)[0].split("\n\tat ")[0].split("\n\nJVM stacktrace")[0]
    text = _CONDITION.sub("", _SQLSTATE.sub("", text).strip())
    return re.sub(r"\s+", " ", text).strip(" ;")


def condition(error: BaseException) -> str:
    """Return Spark's error condition, such as TABLE_OR_VIEW_NOT_FOUND; empty if there is none."""
    if isinstance(error, PySparkException):
        return error.getCondition() or ""
    if isinstance(error, Py4JJavaError):  # PySpark does not know its class
        with suppress(Py4JError):  # nor has it a condition
            return str(error.java_exception.getCondition() or "")
    return ""


def raised_by_query(error: BaseException, text: str) -> bool:
    """Return whether a query failed because its `raise_error` raised this text."""
    return text in str(error)


def malformed_file(error: BaseException) -> str | None:
    """Return the URL of the file in which a reader found a record that does not parse; None for another failure."""
    text = str(error)
    if _MALFORMED_RECORD.search(text):
        found = _FILE.search(text)
    else:
        raised = _RAISED.search(text)
        found = None if raised is None else _FILE_OF_RECORD.search(raised[1])
    return None if found is None else found[1]


@contextmanager
def errors_explained(log_file: Path | str) -> Iterator[None]:
    """Turn errors of Spark and of the system, and errors of any call after the JVM has ended, into MixedmodeErrors."""
    try:
        yield
    except Exception as error:
        of_system = None if has_ended(error) else system_error(error, _places(error, str(log_file)))
        if of_system is not None:
            raise of_system from error
        is_known = isinstance(error, MixedmodeError | PySparkException | Py4JError)
        if not is_known and not has_ended(error) and lost_folder() is None:
            raise  # a defect of the program keeps its stack trace
        found = explained(error, log_file=str(log_file))
        if found is error:
            raise
        raise found from (None if has_secrets(str(error)) else error)


def explained(error: BaseException, *, log_file: str) -> MixedmodeError:
    """Return a failure of a Spark job or query as a MixedmodeError without secrets. Spark's log has the details."""
    found = error if isinstance(error, MixedmodeError) else _meaning(error, log_file)
    return type(found)(hidden(str(found))) if has_secrets(str(found)) else found


def _refuses_setting(error: BaseException, text: str) -> bool:
    """Return whether Spark refuses a setting.

    The failed cast of a value is an IllegalArgumentException too, where Spark passes it on as it was raised.
    """
    is_refusal = isinstance(error, IllegalArgumentException) and not _DATA_ERROR.search(text)
    return is_refusal or _SETTING.search(text) is not None


def _meaning(error: BaseException, log_file: str) -> MixedmodeError:
    text = str(error)
    if has_ended(error):
        return ended_message(log_file)
    of_connector = _of_connector(text) or custom_problem(text)  # first: Iceberg, too, raises IllegalArgumentException
    if of_connector is not None:
        return type(of_connector)(f"{of_connector}, log={log_file}")
    if _refuses_setting(error, text):
        msg = "Spark refuses a setting: one under `spark`, or an option of a source or sink. Correct or remove it."
        return InvalidJobError(f"{msg} cause={spark_text(error)[:400]}, log={log_file}")
    wrong_input = _wrong_input(text)
    if wrong_input is not None:
        return InvalidJobError(f"{wrong_input}, log={log_file}")
    damaged_log = _DAMAGED_LOG.search(text)
    if damaged_log is not None:
        msg = (
            "Spark cannot read its own log, a part of the checkpoint folder (spark/): an entry is damaged or gone. "
            "Nothing was committed. Start the job again with execution.checkpointing.verify: checksums (which is the "
            "default): it names the entry, and mends it or goes back to the newest checkpoint that is whole. "
        )
        return CorruptStateError(f"{msg}cause={spark_text(error)[:300]}, log={log_file}")
    if isinstance(error, ParseException | AnalysisException):
        return InvalidJobError(f"Spark refuses the plan of this job. cause={spark_text(error)}")
    if _OTHER_PYTHON.search(text):
        msg = (
            "the Python of Spark's tasks is not this program's: another version, or without our packages. Install the "
            "same environment there, and name it in `spark: {pyspark.python: ...}` or PYSPARK_PYTHON."
        )
        return InvalidJobError(f"{msg} cause={_found(_OTHER_PYTHON, text)}, log={log_file}")
    to_repeat = _to_repeat(text)
    if to_repeat is not None:
        return RetryableError(f"{to_repeat}, log={log_file}")
    own = _OWN.search(text)
    if own is not None:
        return RetryableError(f"{own[1]}, log={log_file}")
    of_system = system_error(text, _places(text, log_file))
    if of_system is not None:
        return of_system
    cause, lost = innermost(text), lost_folder()
    if lost is not None:
        msg = (
            "a folder that this run needs was deleted while it ran, so its tasks cannot go on, and nothing of their "
            "epoch was committed. Keep other programs from deleting there, or set TMPDIR to a folder that nothing "
            f"empties; then start the job again: it resumes. folder={lost}, cause={cause}, log={log_file}"
        )
        return RetryableError(msg)
    msg = (
        "a task failed, and nothing of its epoch was committed. Look at the cause; when "
        f"it is repaired, start the job again: it resumes. cause={cause}, log={log_file}"
    )
    return RetryableError(msg)


def _places(error: BaseException | str, log_file: str) -> str:
    """Return the values of an error of the system: the log, and of a disk its file, or the folders it may be."""
    if (isinstance(error, OSError) and error.filename) or not _DISK.search(str(error)):
        return f"log={log_file}"
    file = _DISK_FILE.search(str(error)) or _FILE.search(str(error))
    if file is not None:
        return f"path={next(filter(None, file.groups()))}, log={log_file}"
    folder = Path(log_file).parent
    checkpoints = f"checkpoint_folder={folder.parent}, " if folder.name == LOGS else ""
    return f"{checkpoints}temporary_folder={tempfile.gettempdir()}, log={log_file}"


def _of_connector(text: str) -> MixedmodeError | None:
    """Return the error of the first kind of connector that knows the text; None if none does."""
    for kind in connector_kinds().values():
        found: MixedmodeError | None = None if kind.errors is None else loaded(kind.errors)(text)
        if found is not None:
            return found
    return None


def _wrong_input(text: str) -> str | None:
    """Return the message if data, SQL or sources stopped a query, else None. The caller adds the log."""
    file = _found(_FILE, text)
    if _MALFORMED_RECORD.search(text):
        return f"{WRONG_RECORD} file={file}, record={_found(_MALFORMED, text)}"
    if _TOO_MANY_VALUES.search(text):
        return (
            "a line of CSV has more values than Spark's reader takes, and nothing was committed. Correct the file; or "
            "set the option `maxColumns` of the source, which is 20480 if not set, to more: then the line is a wrong "
            f"record as others are, or a dead letter. file={file}, record={_found(_TOO_MANY_VALUES, text)}"
        )
    raised = _RAISED.search(text)
    if raised is not None:  # raised by raise_error: a text of mixedmode, or of the job
        return re.sub(r"\s+", " ", raised[1]).strip()
    wrong_file = _WRONG_FILE.search(text)
    if wrong_file is not None:
        return (
            "a file of a source is not what its format and schema say, and nothing was committed. Correct or remove "
            f"the file, or correct `schema`. file={file}, cause={wrong_file[0].rstrip('.')}"
        )
    if _WRONG_FOLDER.search(text):
        return (
            "the name of a folder of partitions has no value of the column's type, or no column or another one than "
            "the folders beside it, and nothing was committed. Rename or move the folder; or declare the column as "
            f"string in `schema`, and cast it in a sql step. cause={_found(_WRONG_FOLDER, text)}"
        )
    is_outside = _UNREACHABLE_FILE.search(text) is not None or system_words(text) is not None
    is_damaged = _UNREADABLE_FILE.search(text) and not is_outside and not _DATA_ERROR.search(text)
    if is_damaged and "/_mixedmode" not in file:
        return str(damaged_file(file, innermost(text)[:200]))
    other_sources = _OTHER_SOURCES.search(text)
    if other_sources is not None:
        return (
            "the sources of the job are not those that its checkpoint has read: one was added, removed, or moved to "
            "another path, and Spark cannot go on from that. Put `sources` back, or give the job a new "
            "execution.checkpointing.dir and output (it then starts from the beginning of its sources). "
            f"cause={other_sources[0]}"
        )
    if _DATA_ERROR.search(text):
        return (
            "Spark cannot compute a value of a computed column, of a sql step or of an argument, and nothing was "
            "committed. Correct the SQL, let it return NULL for such a value, as try_cast does, or filter such records "
            f"out in a sql step before it. cause={_found(_DATA_ERROR, text)}"
        )
    return None


def _to_repeat(text: str) -> str | None:
    """Return the message if something around the job stopped an epoch, else None. The caller adds the log."""
    if _GONE_FILE.search(text):
        return (
            "a file that the epoch has to read is gone, and nothing of the epoch was committed. Restore the file, and "
            "start the job again: it resumes. VACUUM removes files of a Delta table that were compacted or replaced: "
            "keep them for longer than the job may stand still (delta.deletedFileRetentionDuration). If it is lost, "
            f"give the job a new execution.checkpointing.dir and output. file={_found(_FILE, text)}"
        )
    if _FIRST_FOLDER.search(text):
        return (
            "the first folder of partitions (such as `day=1`) has come into the folder of a source while the job runs, "
            "and the query began without its column. Nothing of the epoch was committed. Start the job again: it "
            f"resumes, and reads the folder. cause={_found(_FIRST_FOLDER, text)}"
        )
    if _OTHER_START.search(text):
        return (
            "another process has started this job in the same checkpoint folder, and both wrote Spark's log at once. "
            "Nothing of this epoch was committed here. Let the other one run; if it has ended, too, start the job "
            f"again: it resumes. place={_found(_OTHER_START, text)}"
        )
    return None


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return "see the log" if match is None else re.sub(r"\s+", " ", match[1]).strip(" .")[:300]


def innermost(text: str) -> str:
    """Return the last line of the innermost Python or Java exception in a text with stack traces."""
    causes = [found["python"] or found["any"] for found in _EXCEPTION.finditer(text)]
    return str(causes[-1] if causes else text.strip().split("\n")[0])[:500]


def refused(where: str, error: BaseException, *, readable: Sequence[str] = ()) -> InvalidJobError:
    """Return the error for SQL at `where` that Spark refuses.  readable: the names that the SQL may read."""
    hint = ""
    if condition(error).startswith("TABLE_OR_VIEW_NOT_FOUND") and readable:
        hint = f" This step can read: {', '.join(readable)}."
    if condition(error) in _UNKNOWN_FUNCTION:
        hint = _near_function(error)
    if condition(error) == STREAM_IN_SUBQUERY:
        hint = (
            " A subquery over an input is a condition of the WHERE of a sql step: IN, or EXISTS that compares it with "
            "the record. For a value, such as (SELECT max(v) FROM p WHERE p.k = o.k), join the input with a query in "
            "parentheses: LEFT JOIN (SELECT k, max(v) AS m FROM p GROUP BY k) q ON q.k = o.k. For a value of all "
            "records, use a function with a broadcast input."
        )
    return InvalidJobError(f"{where}: Spark refuses this SQL.{hint} cause={spark_text(error)}")


def refused_expression(where: str, text: str, error: BaseException) -> InvalidJobError:
    """Return the error for an expression at `where` that Spark refuses with a name behind it, in words about its text.

    error: what Spark said of the two. It would speak of AS, which the text does not have.
    """
    session = SparkSession.getActiveSession()
    if session is None or not isinstance(error, PySparkException):
        return refused(where, error)
    parser: Any = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001  # PySpark only parses with analysis
    try:
        parsed = parser.parseExpression(text)
    except REFUSALS as own:
        return refused(where, own)
    if parsed.getClass().getSimpleName() == "Alias":
        msg = f"{where}: the word after this expression would be a name for it. Remove the word, or correct it. "
        return InvalidJobError(f"{msg}name={parsed.name()}, found={text}")
    return refused(where, error)


def _near_function(error: BaseException) -> str:
    """Return a hint with the function that the unknown one misspells; empty if there is none."""
    session = SparkSession.getActiveSession()
    if session is None or not isinstance(error, PySparkException):
        return ""
    name = (error.getMessageParameters() or {}).get(_UNKNOWN_FUNCTION[condition(error)], "")
    known = (row["function"] for row in session.sql("SHOW FUNCTIONS").collect())
    return did_you_mean(name.strip("`"), known)
