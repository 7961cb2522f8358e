"""Studies on the SQLite in apsw, with a record of everything that it writes to the disk."""

import sqlite3

import apsw

from fairtrial.study.sqlite import SQLiteStore


class Cursor:
    """The part of `sqlite3.Cursor` that a store uses."""

    def __init__(self, cursor, changes):
        self._cursor = cursor
        self.rowcount = changes

    def fetchall(self):
        return translated(self._cursor.fetchall)

    def fetchone(self):
        return translated(self._cursor.fetchone)


class Connection:
    """The part of `sqlite3.Connection` that a store uses, on apsw."""

    def __init__(self, name, vfs=None):
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        self._connection = translated(lambda: apsw.Connection(name, flags=flags, vfs=vfs))
        self._connection.setbusytimeout(100)

    @property
    def in_transaction(self):
        return not self._connection.getautocommit()

    def execute(self, statement, parameters=()):
        cursor = translated(lambda: self._connection.cursor().execute(statement, parameters))
        return Cursor(cursor, self._connection.changes())

    def executemany(self, statement, rows):
        cursor = translated(lambda: self._connection.cursor().executemany(statement, rows))
        return Cursor(cursor, self._connection.changes())

    def close(self):
        translated(self._connection.close)


def translated(action):
    try:
        return action()
    except apsw.Error as error:
        found = sqlite3.OperationalError(str(error))
        found.sqlite_errorcode = getattr(error, "extendedresult", 0)
        raise found from error


class BundledStore(SQLiteStore):
    """A store on apsw's SQLite."""

    vfs = None

    def _connected(self, options):
        from urllib.parse import quote

        return Connection(f"file:{quote(str(self._path))}?{options}", self.vfs)


# ------------------------------------------------------------------------- what is written


class Recording(apsw.VFS):
    """Passes everything on to the file system, and lists what was written and flushed."""

    def __init__(self):
        super().__init__("recording", "")
        self.happened = []

    def xOpen(self, name, flags):
        return RecordedFile(self, name, flags)

    def xDelete(self, name, sync_folder):
        super().xDelete(name, sync_folder)
        self.happened.append(("delete", ending(name)))


class RecordedFile(apsw.VFSFile):
    def __init__(self, recording, name, flags):
        super().__init__("", name, flags)
        self._happened = recording.happened
        self._name = ending(name.filename() if isinstance(name, apsw.URIFilename) else name)

    def xWrite(self, data, offset):
        super().xWrite(data, offset)
        self._happened.append(("write", self._name, offset, bytes(data)))

    def xTruncate(self, size):
        super().xTruncate(size)
        self._happened.append(("truncate", self._name, size))

    def xSync(self, flags):
        super().xSync(flags)
        self._happened.append(("sync", self._name))


def ending(name):
    """Return the kind of a file beside the database: write-ahead log, journal, or itself."""
    for found in ("-wal", "-journal"):
        if str(name).endswith(found):
            return found
    return ""
