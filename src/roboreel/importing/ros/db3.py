"""SQLite files of ROS 2 bags."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from roboreel.errors import CorruptFileError
from roboreel.importing.ros.container import Channel, Container, Message, log_time
from roboreel.io.reading import open_to_read
from roboreel.text import readable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


_READ = {"topics", "messages", "schema", "message_definitions"}
_FEW_STEPS = 10_000_000
_STEPS_PER_BYTE = 10
"""More than ten times what SQLite needs for the rows that fit into a file. Pages that name each other
as their parts can make rows without end."""
_STEPS_AT_ONCE = 1_000_000


class SqliteFile(Container):
    """One SQLite file of a ROS 2 bag, open to be read; its one chunk is the table of messages.

    Raises:
        CorruptFileError: It is not such a file, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.chunk_count = 1
        self._base = _connect(path)
        self._steps, self._most_steps = 0, _FEW_STEPS + _STEPS_PER_BYTE * path.stat().st_size
        self._base.set_progress_handler(self._ends, _STEPS_AT_ONCE)
        try:
            with _translated(path):
                self._open()
        except BaseException:
            self.close()
            raise

    def chunk_channels(self, chunk: int) -> Collection[int]:
        """Return all channels."""
        return self.channels

    def messages(self, chunk: int, channels: Collection[int] | None = None) -> Iterator[Message]:
        """Yield messages; SQLite passes over those of other topics without reading them."""
        condition, values = "", tuple(channels or ())
        if channels is not None:
            condition = f"WHERE topic_id IN ({','.join('?' * len(values))})"
        query = f"SELECT rowid, topic_id, timestamp, data FROM messages {condition} ORDER BY rowid"
        self._steps = 0
        with _translated(self.path):
            for row, topic, timestamp, data in self._base.execute(query, values):
                if (
                    topic not in self.channels
                    or not isinstance(timestamp, int)
                    or not isinstance(row, int)
                ):
                    raise CorruptFileError(
                        f"Message {row} has no known topic or no time: {str(self.path)!r}."
                    )
                yield Message(topic, log_time(timestamp, self.path), row, self._body(row, data))

    def read(self, chunk: int, offset: int) -> memoryview:
        """Return the message at an offset that `messages` gave."""
        with _translated(self.path):
            found = self._base.execute("SELECT data FROM messages WHERE rowid = ?", (offset,))
            (data,) = found.fetchone() or (None,)
        return self._body(offset, data)

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._base.close()

    def _open(self) -> None:
        self._base.execute("PRAGMA trusted_schema = OFF")
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        tables = {name for (name,) in self._base.execute(query)}
        if not {"topics", "messages"} <= tables:
            raise CorruptFileError(
                "The SQLite file is not a ROS 2 bag: it lacks the tables topics and messages: "
                f"{str(self.path)!r}."
            )
        for table in tables & _READ:
            # A column that is computed may say that it has any number of bytes.
            if any(hidden for *_, hidden in self._base.execute(f"PRAGMA table_xinfo({table})")):
                raise CorruptFileError(
                    f"The table {table} has computed columns, as no ROS 2 bag has: {str(self.path)!r}."
                )
        if "schema" in tables:
            self.distro = _distro(self._base)
        definitions = _definitions(self._base) if "message_definitions" in tables else {}
        query = "SELECT id, name, type, serialization_format FROM topics ORDER BY id"
        for number, topic, kind, encoding in self._base.execute(query):
            described = definitions.get(kind, ("", b""))
            self.channels[number] = Channel(str(topic), str(kind), str(encoding), *described)

    def _ends(self) -> bool:
        """Count steps of SQLite; return whether it is to stop."""
        self._steps += _STEPS_AT_ONCE
        return self._steps > self._most_steps

    def _body(self, row: int, data: object) -> memoryview:
        if not isinstance(data, bytes):
            raise CorruptFileError(f"Message {row} is not bytes: {str(self.path)!r}.")
        return memoryview(data)


def _connect(path: Path) -> sqlite3.Connection:
    beside = [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]
    for file in (path, *filter(os.path.lexists, beside)):  # SQLite would wait for a pipe.
        handle, _ = open_to_read(file, "ROS 2 bag")  # For its errors, in our words.
        os.close(handle)
    log = beside[0]
    # "immutable" promises that nobody writes, and so needs no lock; it would ignore a log.
    mode = "mode=ro" if log.is_file() and log.stat().st_size else "mode=ro&immutable=1"
    try:
        return sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, check_same_thread=False)
    except sqlite3.Error as error:
        raise CorruptFileError(f"SQLite cannot open it ({error}): {str(path)!r}.") from error


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Raise errors of SQLite in our words."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        why = readable(str(error))[:100]
        raise CorruptFileError(f"The SQLite file is damaged ({why}): {str(path)!r}.") from error


def _distro(base: sqlite3.Connection) -> str | None:
    row = base.execute("SELECT ros_distro FROM schema").fetchone()
    return str(row[0]) if row and row[0] else None


def _definitions(base: sqlite3.Connection) -> dict[str, tuple[str, bytes]]:
    query = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
    return {
        kind: (str(encoding), str(text).encode())
        for kind, encoding, text in base.execute(query)
        if text
    }
