"""Key-value stores that ranks share: in a process (`HashStore`), in a file (`FileStore`) and over TCP (`TCPStore`).

Communicators that have to exchange addresses use a store when they connect. Values are bytes; a str is encoded as UTF-8.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sqlite3
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

from metatensor.distributed._errors import DistNetworkError, DistStoreError
from metatensor.distributed._world import current_world
from metatensor.distributed.work import seconds_of

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore", "rendezvous", "rendezvous_store"]

_DEFAULT_TIMEOUT = timedelta(seconds=300)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store(ABC):
    """A key-value store. A subclass defines `_update`, and everything else follows from it."""

    timeout: timedelta = _DEFAULT_TIMEOUT

    @abstractmethod
    def _update(self, key: str, change: str, *values: bytes) -> bytes | None:
        """Apply one of `_CHANGES` to the value of a key, atomically. Return the value afterwards, None if there is none."""

    @abstractmethod
    def num_keys(self) -> int:
        """Return the number of keys."""

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait for a key."""
        self.timeout = timeout

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self._update(key, "set", _bytes(value))

    def get(self, key: str) -> bytes:
        """Return a value. Wait for it until the timeout, then raise DistStoreError."""
        self.wait([key])
        found = self._update(key, "get")
        assert found is not None
        return found

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key holds, at first 0. Return the sum."""
        return int(self._update(key, "add", str(amount).encode()) or b"0")

    def append(self, key: str, value: Any) -> None:
        """Append bytes to a value, at first empty."""
        self._update(key, "append", _bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Store a value if the key holds the expected one, or if it is missing and nothing is expected.

        Return what the key holds afterwards, or the expected value if the key is missing.
        """
        found = self._update(key, "compare_set", _bytes(expected_value), _bytes(desired_value))
        return _bytes(expected_value) if found is None else found

    def delete_key(self, key: str) -> bool:
        """Remove a key. Return True if it existed."""
        return self._update(key, "delete") is not None

    def check(self, keys: Sequence[str]) -> bool:
        """Return True if all keys exist."""
        return all(self._update(key, "get") is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys exist. After the timeout raise DistStoreError."""
        limit = seconds_of(timeout or self.timeout) or _DEFAULT_TIMEOUT.total_seconds()
        deadline = time.monotonic() + limit
        while not self.check(keys):
            if time.monotonic() > deadline:
                missing = [key for key in keys if not self.check([key])]
                raise DistStoreError(f"{type(self).__name__}: nobody stored {missing} within {limit:g} s")
            launch = current_world().launch
            if launch is None:
                time.sleep(0.002)
            else:
                launch.connection.idle()

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Store several values."""
        for key, value in zip(keys, values):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return True: `append`, `multi_get` and `multi_set` exist."""
        return True


def _compared(now: bytes | None, expected: bytes, desired: bytes) -> bytes | None:
    return desired if now == expected or (now is None and not expected) else now


_CHANGES: dict[str, Callable[..., bytes | None]] = {
    "get": lambda now: now,
    "set": lambda now, value: value,
    "add": lambda now, amount: str(int(now or b"0") + int(amount)).encode(),
    "append": lambda now, value: (now or b"") + value,
    "compare_set": _compared,
}
"""Functions of the present value (None if there is none) and arguments. They return the new value."""


class HashStore(Store):
    """A store in the memory of this process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _update(self, key: str, change: str, *values: bytes) -> bytes | None:
        with self._lock:
            if change == "delete":
                return self._values.pop(key, None)
            found = _CHANGES[change](self._values.get(key), *values)
            if found is not None:
                self._values[key] = found
            return found

    def num_keys(self) -> int:
        return len(self._values)


class FileStore(Store):
    """A store in a file, an SQLite database, that processes on one machine or on a shared file system use.

    Parameters
    ----------
    file_name : str
        The file. It is created if necessary. It must not contain the keys of an earlier run.
    world_size : int
        Ignored.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        self.path = os.fspath(file_name)
        with closing(self._connect()) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS pairs (key TEXT PRIMARY KEY, value BLOB NOT NULL)")

    def _connect(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(self.path, timeout=60, isolation_level="IMMEDIATE")
        except sqlite3.Error as error:
            raise DistStoreError(f"FileStore: {self.path} cannot be opened: {error}") from error

    def _update(self, key: str, change: str, *values: bytes) -> bytes | None:
        with closing(self._connect()) as database, database:
            if change != "get":
                database.execute("BEGIN IMMEDIATE")
            row = database.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
            now = None if row is None else bytes(row[0])
            if change == "delete":
                database.execute("DELETE FROM pairs WHERE key = ?", (key,))
                return now
            found = _CHANGES[change](now, *values)
            if found is not None and found != now:
                database.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (key, found))
            return found

    def num_keys(self) -> int:
        with closing(self._connect()) as database:
            return int(database.execute("SELECT count(*) FROM pairs").fetchone()[0])


class PrefixStore(Store):
    """A part of another store: all keys begin with ``prefix``."""

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix, self.underlying_store = prefix, store
        self.timeout = store.timeout

    def _update(self, key: str, change: str, *values: bytes) -> bytes | None:
        return self.underlying_store._update(f"{self.prefix}/{key}", change, *values)

    def num_keys(self) -> int:
        return self.underlying_store.num_keys()


# TCP ------------------------------------------------------------------------------------------------------------------


def _send_message(connection: socket.socket, value: Any) -> None:
    data = json.dumps(value).encode()
    connection.sendall(struct.pack("<I", len(data)) + data)


def _receive_message(connection: socket.socket) -> Any:
    size = struct.unpack("<I", _receive_bytes(connection, 4))[0]
    return json.loads(_receive_bytes(connection, size))


def _receive_bytes(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 16))
        if not part:
            raise ConnectionError("the connection was closed")
        parts += part
    return bytes(parts)


class _Server(socketserver.ThreadingTCPServer):
    """Serves a `HashStore`. A message is a JSON list of the method and its arguments. Bytes are encoded as latin-1."""

    allow_reuse_address = True
    daemon_threads = True
    values: HashStore


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        try:
            while True:
                key, change, *values = _receive_message(self.request)
                if change == "num_keys":
                    answer: Any = self.server.values.num_keys()
                else:
                    found = self.server.values._update(key, change, *(value.encode("latin-1") for value in values))
                    answer = None if found is None else found.decode("latin-1")
                _send_message(self.request, answer)
        except (ConnectionError, OSError):
            pass
        except (KeyError, TypeError, ValueError):  # not a message of a TCPStore: drop the connection
            pass


class TCPStore(Store):
    """A store that one process serves over TCP. It has no authentication: use it only in networks that are trusted.

    Parameters
    ----------
    host_name : str
        The host of the process that serves the store.
    port : int
        Its port. With 0 the server chooses one, see the attribute ``port``.
    world_size : int, optional
        Ignored.
    is_master : bool
        Whether this process serves the store.
    timeout : timedelta
        How long to wait for the server, and for keys.

    Raises
    ------
    DistNetworkError
        If the server cannot be reached within the timeout, or the port cannot be used.
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = _DEFAULT_TIMEOUT, wait_for_workers: bool = True, multi_tenant: bool = False,
        master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        self.host, self.port, self.timeout = host_name, port, timeout
        self._lock = threading.Lock()
        self._server: _Server | None = None
        if is_master:
            try:
                self._server = _Server(("", port), _Handler)
            except OSError as error:
                raise DistNetworkError(f"TCPStore: port {port} cannot be used: {error}") from error
            self._server.values = HashStore()
            self.port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, name="TCPStore", daemon=True).start()
        self._socket = self._reach()

    def _reach(self) -> socket.socket:
        limit = seconds_of(self.timeout) or _DEFAULT_TIMEOUT.total_seconds()
        deadline = time.monotonic() + limit
        while True:
            try:
                return socket.create_connection((self.host, self.port), timeout=limit)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise DistNetworkError(f"TCPStore: {self.host}:{self.port} cannot be reached within {limit:g} s: {error}") from error
                time.sleep(0.05)

    def _ask(self, *message: Any) -> Any:
        with self._lock:
            try:
                _send_message(self._socket, message)
                return _receive_message(self._socket)
            except OSError as error:
                raise DistNetworkError(f"TCPStore: the connection to {self.host}:{self.port} broke: {error}") from error

    def _update(self, key: str, change: str, *values: bytes) -> bytes | None:
        found = self._ask(key, change, *(value.decode("latin-1") for value in values))
        return None if found is None else found.encode("latin-1")

    def num_keys(self) -> int:
        return int(self._ask("", "num_keys"))

    def close(self) -> None:
        """Close the connection and, on the process that serves the store, the server."""
        self._socket.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


# Rendezvous -----------------------------------------------------------------------------------------------------------


def rendezvous_store(init_method: str | None, rank: int, world_size: int, timeout: float) -> Store | None:
    """Return the store that a URL names: ``file:///path``, ``tcp://host:port``, or ``env://`` (the default).

    ``env://`` reads the environment variables MASTER_ADDR and MASTER_PORT; without them the function returns None. Raise
    ValueError for other URLs.
    """
    from urllib.parse import urlparse

    url = urlparse(init_method or "env://")
    limit = timedelta(seconds=timeout)
    if url.scheme == "file":
        return FileStore(url.netloc + url.path, world_size)
    if url.scheme == "tcp":
        if url.hostname is None or url.port is None:
            raise ValueError(f"torch.distributed: {init_method!r} names no host and port")
        return TCPStore(url.hostname, url.port, world_size, rank == 0, limit)
    if url.scheme != "env":
        raise ValueError(f"torch.distributed: the scheme of {init_method!r} is not env, file or tcp")
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if host is None or port is None:
        return None
    return TCPStore(host, int(port), world_size, rank == 0, limit)


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **options: Any) -> Iterator[tuple[Store, int, int]]:
    """Yield (store, rank, world size) for a URL of `init_process_group`.

    Rank and size are those in its query, or in the environment variables RANK and WORLD_SIZE, unless they are given.
    """
    from metatensor.distributed._group import _place

    rank, world_size, _ = _place("undefined", url, rank, world_size)
    timeout = seconds_of(options.get("timeout", _DEFAULT_TIMEOUT)) or _DEFAULT_TIMEOUT.total_seconds()
    store = rendezvous_store(url.partition("?")[0], rank, world_size, timeout)
    if store is None:
        raise ValueError("torch.distributed.rendezvous: the environment variables MASTER_ADDR and MASTER_PORT are not set")
    yield store, rank, world_size
