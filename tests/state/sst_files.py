"""Files of RocksDB's own writer and of ours, and all that RocksDB reads from one."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rocksdict import Options, Rdict, SstFileWriter

from mixedmode.state.arrow_bytes import piece_of
from mixedmode.state.rocksdb.options import replica_options, run_options
from mixedmode.state.rocksdb.sst_file import SstFile

Entries = Mapping[bytes, bytes]


def write_ours(path: Path, entries: Entries, *, steps: Sequence[int] = (), has_filter: bool = True) -> Path:
    """A file of ours; `steps` are the numbers of entries of the first writes, and the last write has the others."""
    keys, file, start = sorted(entries), SstFile(path, has_filter=has_filter), 0
    for step in [*steps, len(keys)]:
        some = keys[start : start + step]
        file.write(piece_of(some), piece_of([entries[key] for key in some]))
        start += len(some)
    file.finish()
    return path


def write_theirs(path: Path, entries: Entries) -> Path:
    """A file of RocksDB's writer."""
    file = SstFileWriter(run_options())
    file.open(str(path))
    for key in sorted(entries):
        file[key] = entries[key]
    file.finish()
    return path


@dataclass(frozen=True)
class Read:
    """All that RocksDB reads from some files; an entry of a later file replaces one of an earlier file."""

    forward: list[tuple[bytes, bytes]]
    backward: list[tuple[bytes, bytes]]
    seeks: list[bytes | None]  #: the first key that is not less than a wanted one
    points: list[bytes | None]
    batch: list[bytes | None]
    entries_in_properties: int


class Ingested:
    """Context manager: a database that ingests copies of files, oldest first."""

    def __init__(self, *files: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=files[0].parent))
        self.options: Options = replica_options()
        self.options.set_disable_auto_compactions(True)
        self.options.enable_statistics()
        self.database: Any = Rdict(str(self.folder / "db"), options=self.options)
        try:
            for number, file in enumerate(files):
                self.database.ingest_external_file([str(shutil.copy(file, self.folder / f"{number}.sst"))])
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()
        shutil.rmtree(self.folder)

    def read(self, wanted: Sequence[bytes]) -> Read:
        """Read in every way; raise what RocksDB raises."""
        at, forward, backward, seeks = self.database.iter(), [], [], []
        at.seek_to_first()
        while at.valid():
            forward.append((at.key(), at.value()))
            at.next()
        at.status()
        at.seek_to_last()
        while at.valid():
            backward.append((at.key(), at.value()))
            at.prev()
        at.status()
        for key in wanted:
            at.seek(key)
            seeks.append(at.key())
        points = [self.database.get(key) for key in wanted]
        found = sum(file["num_entries"] for file in self.database.live_files())
        return Read(forward, backward, seeks, points, self.database.get(list(wanted)), found)

    def counted(self, name: str) -> int:
        """One of RocksDB's statistics."""
        found = re.search(
            rf"^rocksdb\.{re.escape(name)} COUNT : (\d+)", self.options.get_statistics() or "", re.MULTILINE
        )
        assert found is not None, name
        return int(found[1])
