"""Options of Spark's file readers: their names, and the values that decide which records are read.

Spark ignores an unknown option, and treats an unknown `mode` as PERMISSIVE, which turns records that do not parse into
NULLs. So a typing error in an option would change data without a message. This module refuses such options.

Invariants (tests/config/test_reader_options.py, tests/sources/test_reader_options.py):
  I1  every option that Spark's readers of CSV, JSON and Parquet list is known, or refused with a reason
  I2  no option and no setting of Spark lets a job lose records, unless the job file says `mode: PERMISSIVE`
"""

import re
from collections.abc import Iterator, Mapping

from mixedmode.config.document import Path
from mixedmode.config.spelling import did_you_mean

#: options of every file reader: the choice of files, and the treatment of dates of other calendars
_OF_ALL = (
    *("basePath", "ignoreCorruptFiles", "ignoreInvalidPartitionPaths", "ignoreMissingFiles", "modifiedAfter"),
    *("modifiedBefore", "pathGlobFilter", "recursiveFileLookup", "timeZone"),
)
#: options of the streaming file reader
_OF_STREAMS = (
    *("cleanSource", "discardCachedInputRatio", "fileNameOnly", "latestFirst", "maxBytesPerTrigger", "maxCachedFiles"),
    *("maxFileAge", "maxFilesPerTrigger", "sourceArchiveDir"),
)
_OF_TEXTS = (
    *("charset", "columnNameOfCorruptRecord", "compression", "dateFormat", "enableDateTimeParsingFallback", "encoding"),
    *("lineSep", "locale", "mode", "multiLine", "samplingRatio", "timeFormat", "timestampFormat"),
    "timestampNTZFormat",
)
_OF_FORMAT: Mapping[str, tuple[str, ...]] = {
    "parquet": ("compression", "datetimeRebaseMode", "int96RebaseMode", "mergeSchema"),
    "csv": (
        *_OF_TEXTS,
        *("charToEscapeQuoteEscaping", "codec", "columnPruning", "comment", "delimiter", "emptyValue", "enforceSchema"),
        *("escape", "escapeQuotes", "extension", "header", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
        *("inferSchema", "inputBufferSize", "maxCharsPerColumn", "maxColumns", "nanValue", "negativeInf", "nullValue"),
        *("positiveInf", "preferDate", "quote", "quoteAll", "sep", "unescapedQuoteHandling"),
    ),
    "json": (
        *_OF_TEXTS,
        *("allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers", "allowNumericLeadingZeros"),
        *("allowSingleQuotes", "allowUnquotedControlChars", "allowUnquotedFieldNames", "dropFieldIfAllNull"),
        *("explodeEmbeddedArray", "ignoreNullFields", "inferTimestamp", "prefersDecimal", "pretty"),
        *("primitivesAsString", "sortKeys", "useUnsafeRow", "writeNonAsciiCharacterAsCodePoint"),
    ),
}
#: options of Spark that are refused as unknown: they conflict with `path` and `schema` of a source
REFUSED = ("archivePathFilter", "ignoredPathSegmentRegex", "parquet.compression", "singleVariantColumn")
#: settings of Hadoop, of its file systems and of Parquet's library, which Spark takes from the options of a reader
_OF_HADOOP = ("dfs.", "fs.", "hadoop.", "io.", "parquet.")
_FLAGS = {
    *("columnpruning", "enforceschema", "escapequotes", "header", "ignorecorruptfiles", "ignoreinvalidpartitionpaths"),
    *("ignoreleadingwhitespace", "ignoremissingfiles", "ignoretrailingwhitespace", "inferschema", "latestfirst"),
    *("filenameonly", "mergeschema", "multiline", "preferdate", "quoteall", "recursivefilelookup"),
    *("allowbackslashescapinganycharacter", "allowcomments", "allownonnumericnumbers", "allownumericleadingzeros"),
    *("allowsinglequotes", "allowunquotedcontrolchars", "allowunquotedfieldnames", "primitivesasstring"),
    *("prefersdecimal", "dropfieldifallnull", "infertimestamp", "enabledatetimeparsingfallback"),
}
_MODES = ("FAILFAST", "PERMISSIVE")
#: {flag that drops records without a message: (what happens, what to do instead)}
_LOSSY: Mapping[str, tuple[str, str]] = {
    "ignorecorruptfiles": ("the rest of a damaged file is not read", "Repair or remove the file"),
    "ignoremissingfiles": ("a file that is gone is not read", "Put the file back"),
    "ignoreinvalidpartitionpaths": ("folders with other names are not read", "Correct the names of the folders"),
    "filenameonly": ("of two files with one name in two folders, one is not read", "Give the files different names"),
}
#: {setting of a Spark session with the same effect on every source: the flag}; false by default
LOSSY_SETTINGS: Mapping[str, str] = {
    "spark.files.ignoreCorruptFiles": "ignorecorruptfiles",
    "spark.files.ignoreMissingFiles": "ignoremissingfiles",
    "spark.sql.files.ignoreCorruptFiles": "ignorecorruptfiles",
    "spark.sql.files.ignoreInvalidPartitionPaths": "ignoreinvalidpartitionpaths",
    "spark.sql.files.ignoreMissingFiles": "ignoremissingfiles",
}
#: the only one that the job file may set to true: the way to continue after input files are lost for good
ALLOWED_IN_JOB = "spark.sql.files.ignoreMissingFiles"


def known_options(file_format: str) -> tuple[str, ...]:
    """Return the options of Spark's reader of a format, in Spark's spelling."""
    return (*_OF_FORMAT[file_format], *_OF_ALL, *_OF_STREAMS)


def option_findings(file_format: str, options: Mapping[str, str], schema: str | None) -> Iterator[tuple[Path, str]]:
    """Yield (path below `options`, error) for the options of a file source, ignoring case."""
    known = known_options(file_format)
    names = {name.lower() for name in known}
    given = {name.lower(): value for name, value in options.items()}
    for option, value in options.items():
        name = option.lower()
        if name not in names:
            if not name.startswith(_OF_HADOOP) or option in REFUSED:
                yield (option,), _unknown(option, file_format, known)
        elif name == "mode":
            yield from _mode_findings(option, value)
        elif name == "columnnameofcorruptrecord":
            yield from _corrupt_findings(option, value, given.get("mode", ""), schema)
        elif name in _FLAGS and value.lower() not in {"true", "false"}:
            yield (option,), f" must be true or false. found={value}"
        elif name in _LOSSY and value.lower() == "true":
            yield (option,), _lossy(name, "Remove the option.")


def setting_problem(key: str, value: str) -> str | None:
    """Return why a Spark setting is not allowed; None if it is. The text follows the name of the setting."""
    names = {setting.lower(): option for setting, option in LOSSY_SETTINGS.items()}
    option = names.get(key.lower())
    if option is None or value.strip().lower() != "true":
        return None
    return _lossy(option, "Remove the setting, or set it to false.")


def _unknown(option: str, file_format: str, known: tuple[str, ...]) -> str:
    hint = did_you_mean(option, known)
    return (
        f" is not an option of Spark's reader of {file_format} files, which would pass over it without a message.{hint}"
        f" Correct the name, or remove the option."
    )


def _lossy(option: str, remedy: str) -> str:
    effect, instead = _LOSSY[option]
    return f" would lose records without a message: {effect}. {remedy} {instead}, and start the job again."


def _mode_findings(option: str, value: str) -> Iterator[tuple[Path, str]]:
    mode = value.strip().upper()
    if mode == "DROPMALFORMED":
        text = (
            " would lose records without a message: what does not parse is dropped, and how many records that are "
            "depends on the columns that the job reads. Use FAILFAST, which stops the job at such a record; or "
            "PERMISSIVE with columnNameOfCorruptRecord, and leave the records out in a sql step."
        )
        yield (option,), text
    elif mode not in _MODES or value != value.strip():
        hint = did_you_mean(mode, _MODES)
        text = f" is not a mode; Spark would read it as PERMISSIVE, which makes NULLs of what does not parse.{hint} "
        yield (option,), f"{text}Write FAILFAST or PERMISSIVE. found={value}"


def _corrupt_findings(option: str, value: str, mode: str, schema: str | None) -> Iterator[tuple[Path, str]]:
    if mode.upper() != "PERMISSIVE":
        yield (option,), " has no effect unless mode is PERMISSIVE. Add mode: PERMISSIVE, or remove the option."
    elif re.search(rf"(?<!\w){re.escape(value)}(?!\w)", schema or "", re.IGNORECASE) is None:
        text = f" names a column that schema does not have, so Spark would not write it. Add it: `{value} string`."
        yield (option,), text
