"""Spark's side of a job's checkpoint folder, without Spark: the log of a file source, and the micro-batches over it.

The files, their order, and what a start makes of them are those of Spark 4.3 (MicroBatchExecution, FileStreamSource,
CompactibleFileStreamLog); only the numbers are smaller, so that compaction and purging happen often:

    sources/0/<n>           files that the source found, its n-th time
    sources/0/<n>.compact   every COMPACT_INTERVAL-th: all files of the source so far
    offsets/<epoch>         written next: how far into the source's log the epoch goes
    commits/<epoch>         written when foreachBatch has returned

A crash between the first two lets the source's numbers run ahead of the epochs', as it does in Spark.
"""

import json
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

COMPACT_INTERVAL = 4
KEPT_MIN = 12  # entries of each log
_NUMBER = re.compile(r"(\d+)(\.compact)?")
_VERSION = "v1"
_CHUNK_BYTES = 512

Entry = dict[str, object]
Handler = Callable[[int, Sequence[str]], None]  # (epoch, names of its files)


class SparkLogError(Exception):
    """Raised where Spark would stop: its log is damaged, or another query writes it."""


class ConcurrentUpdateError(SparkLogError):
    """Another query over the same folder has written the entry that is to be written now."""


class SparkQuery:
    """One streaming query over a checkpoint folder, from its start. `step` is called around each write.

    files_max: the most files that a micro-batch takes. has_clock: the offsets have a line of the clock, as those of a
    job with work that is due by the clock. Here it does not begin epochs.
    """

    def __init__(
        self, folder: Path, step: Callable[[], None], files_max: int | None = None, *, has_clock: bool = False
    ) -> None:
        self._folder = folder
        self._files_max = files_max
        self._has_clock = has_clock
        self._step = step
        if not (folder / "metadata").exists():
            self._write("metadata", json.dumps({"id": str(uuid.uuid4())}))
        self._source_offset = max(self._numbers("sources/0"), default=-1)
        self._seen = set(self._all_files())
        self._epoch, self._is_constructed = 0, False
        self._committed = self._available = -1
        self._resume()

    def run_batch(self, present: Iterable[str], handle: Handler) -> bool:
        """One trigger: the batch that was not committed, or one of all new files; whether there was either.

        present: names of the files in the source's folder, in the order of their times.
        """
        if not self._is_constructed and not self._construct(present):
            return False
        handle(self._epoch, self._files_between(self._committed + 1, self._available))
        self._write(f"commits/{self._epoch}", _entry({"nextBatchWatermarkMs": 0}))
        self._committed, self._is_constructed = self._available, False
        self._epoch += 1
        self._purge()
        return True

    def _resume(self) -> None:
        """As MicroBatchExecution.populateStartOffsets."""
        latest = max(self._numbers("offsets"), default=None)
        if latest is None:
            return
        self._epoch, self._is_constructed = latest, True
        self._available = self._offset_of(latest)
        if latest > 0:
            self._committed = self._offset_of(latest - 1)
        if max(self._numbers("commits"), default=-1) == latest:
            self._epoch, self._is_constructed = latest + 1, False
            self._committed = self._available

    def _construct(self, present: Iterable[str]) -> bool:
        """As MicroBatchExecution.constructNextBatch and FileStreamSource.fetchMaxOffset."""
        new = [name for name in present if name not in self._seen][: self._files_max]
        if new:
            self._source_offset += 1
            self._add_to_source(self._source_offset, new)
            self._seen.update(new)
        if self._source_offset == self._committed:
            return False
        self._available = self._source_offset
        clock = [{"seconds": self._epoch}] if self._has_clock else []
        entry = _entry({"batchWatermarkMs": 0, "batchTimestampMs": 0}, {"logOffset": self._available}, *clock)
        self._write(f"offsets/{self._epoch}", entry)
        self._is_constructed = True
        return True

    def _add_to_source(self, number: int, names: Sequence[str]) -> None:
        entries = [{"path": name, "timestamp": 0, "batchId": number} for name in names]
        if (number + 1) % COMPACT_INTERVAL:
            self._write(f"sources/0/{number}", _entry(*entries))
            return
        entries = [*self._entries_up_to(number - 1), *entries]
        self._write(f"sources/0/{number}.compact", _entry(*entries))

    def _all_files(self) -> list[str]:
        return [str(entry["path"]) for entry in self._entries_up_to(self._source_offset)]

    def _entries_up_to(self, number: int) -> list[Entry]:
        """As CompactibleFileStreamLog.allFiles: the latest compact file, and every one after it."""
        names = self._names("sources/0")
        compact = max((n for n in range(number + 1) if f"{n}.compact" in names), default=-1)
        files = [f"{compact}.compact"] if compact >= 0 else []
        files += [str(n) for n in range(compact + 1, number + 1)]
        return [entry for name in files for entry in self._read(f"sources/0/{name}")]

    def _files_between(self, first: int, last: int) -> list[str]:
        """As FileStreamSourceLog.get: an entry by itself, or out of the compact file that has its number."""
        names, found = self._names("sources/0"), []
        for number in range(first, last + 1):
            name = str(number) if str(number) in names else f"{number}.compact"
            found += [entry["path"] for entry in self._read(f"sources/0/{name}") if entry["batchId"] == number]
        return [str(path) for path in found]

    def _offset_of(self, epoch: int) -> int:
        offset = self._read(f"offsets/{epoch}")[1]["logOffset"]
        assert isinstance(offset, int), offset
        return offset

    def _purge(self) -> None:
        for log in ("offsets", "commits"):
            for number in self._numbers(log):
                if number < self._epoch - KEPT_MIN:
                    self._remove(f"{log}/{number}")
        names = self._names("sources/0")
        compacts = [n for n in range(self._source_offset - KEPT_MIN + 1) if f"{n}.compact" in names]
        for name in names if compacts else ():
            if _number(name) < compacts[-1]:
                self._remove(f"sources/0/{name}")

    def _numbers(self, log: str) -> set[int]:
        return {_number(name) for name in self._names(log)}

    def _names(self, log: str) -> set[str]:
        folder = self._folder / log
        return {path.name for path in folder.iterdir() if _NUMBER.fullmatch(path.name)} if folder.exists() else set()

    def _remove(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        _checksum_file(path).unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        """A new file, and then its checksum, as Hadoop's ChecksumFs renames them."""
        self._step()
        path = self._folder / name
        if path.exists():
            raise ConcurrentUpdateError(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        draft.write_text(text)
        draft.rename(path)
        _checksum_file(path).write_bytes(_hadoop_checksum(text.encode()))
        self._step()

    def _read(self, name: str) -> list[Entry]:
        path = self._folder / name
        try:
            text = path.read_text()
        except FileNotFoundError as error:
            msg = f"an entry of the log is missing: {name}"
            raise SparkLogError(msg) from error
        checksum = _checksum_file(path)
        if checksum.exists() and checksum.read_bytes() != _hadoop_checksum(text.encode()):
            msg = f"checksum error: {name}"
            raise SparkLogError(msg)
        version, *lines = text.split("\n")
        assert version == _VERSION, name
        return [json.loads(line) for line in lines]


def _entry(*lines: object) -> str:
    return "\n".join([_VERSION, *map(json.dumps, lines)])


def _checksum_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _hadoop_checksum(data: bytes) -> bytes:
    """As ChecksumFs: magic, bytes per chunk, and the CRC of each chunk."""
    chunks = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
    return struct.pack(f">4si{len(chunks)}I", b"crc\0", _CHUNK_BYTES, *map(zlib.crc32, chunks))


def _number(name: str) -> int:
    found = _NUMBER.fullmatch(name)
    assert found is not None, name
    return int(found[1])
