"""The results of a sweep in an SQLite file, so that they are not computed again."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sqlite3
from collections.abc import Iterator
from types import NoneType
from typing import Any

from metatensor.plan.layouts import Degrees, Layout, Rejected
from metatensor.plan.rates import Rates

__all__ = ["SweepError", "SweepFile"]

APPLICATION = 0x6D747370
"""The application id in the header of the file: "mtsp"."""
FORMAT = 1
TABLES = """
CREATE TABLE cases (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, description TEXT NOT NULL);
CREATE TABLE parts (case_id INTEGER NOT NULL, part TEXT NOT NULL, remarks TEXT NOT NULL, PRIMARY KEY (case_id, part));
CREATE TABLE candidates (case_id INTEGER NOT NULL, degrees TEXT NOT NULL, reason TEXT, excess INTEGER, layout TEXT,
                         PRIMARY KEY (case_id, degrees));
"""


DESCRIPTION = {"model": str, "devices": str, "global_batch": int, "precision": str, "memory": int, "labels": dict,
               "power": (int, float, NoneType), "price": (int, float, NoneType)}  # fmt: skip
"""What describes a case."""
WAIT = 60.0
"""Seconds for which other processes may write."""
TYPES = {"int": int, "float": (int, float), "bool": bool, "str": str, "float | None": (int, float, NoneType), "int | None": (int, NoneType),
         "list[list[int]]": list, "list[dict[str, int]]": list}  # fmt: skip
"""Types of the fields of layouts and degrees in JSON."""


class SweepError(ValueError):
    """Raised for a file that does not hold a sweep, holds one of another format, or cannot be written."""


class SweepFile:
    """A file with the results of sweeps. Use it in a ``with`` block.

    Parameters
    ----------
    path : str or path
        The file. It is created if it does not exist.
    create : bool
        Whether it may be created.

    Raises
    ------
    SweepError
        If the file does not hold a sweep.
    """

    def __init__(self, path: str | os.PathLike[str], create: bool = True) -> None:
        self.path = os.fspath(path)
        folder = os.path.dirname(os.path.abspath(self.path))
        if not create and not os.path.exists(self.path):
            raise SweepError(f"{self.path}: there is no such file")
        if not os.path.isdir(folder) or os.path.isdir(self.path):
            raise SweepError(f"{self.path}: it is a folder, not the file of a sweep" if os.path.isdir(self.path) else
                             f"{self.path}: there is no folder {folder}")  # fmt: skip
        try:
            self._file = sqlite3.connect(self.path, timeout=WAIT)
            self._file.execute("BEGIN")  # another process may create the file
            with self._file:
                version, application, empty = self._header()
            if empty and create and application in (0, APPLICATION):
                version, application = self._made()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise SweepError(f"{self.path}: it cannot be opened or written ({error})") from None
            raise SweepError(f"{self.path}: it is not the file of a sweep ({error})") from None
        if application != APPLICATION:
            self._file.close()
            raise SweepError(f"{self.path}: it is not the file of a sweep, but another database")
        if version != FORMAT:
            self._file.close()
            raise SweepError(f"{self.path}: a sweep of format {version}; this version reads format {FORMAT}")

    def _header(self) -> tuple[int, int, bool]:
        """Return the version, the application, and whether there are no tables."""
        version, application = (self._file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id"))
        return version, application, not self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

    def _made(self) -> tuple[int, int]:
        """Create the tables unless another process does, and return version and application. A process that is killed leaves nothing."""
        self._file.execute("BEGIN IMMEDIATE")
        with self._file:
            if self._header()[2]:
                for statement in (f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {FORMAT}", *TABLES.split(";")[:-1]):
                    self._file.execute(statement)
        return self._header()[:2]

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise SweepError(f"{self.path}: its contents cannot be read ({type(error).__name__}: {error})") from None

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._file:
                yield
        except sqlite3.Error as error:
            raise SweepError(f"{self.path}: results cannot be written ({error}); those that it has are kept") from None

    def case(self, key: str, description: dict[str, Any]) -> int:
        """Return the number of a case, which is added if it is not there."""
        with self._writing():
            self._file.execute("INSERT INTO cases (key, description) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET description = "
                               "excluded.description", (key, json.dumps(description)))  # fmt: skip
            return int(self._file.execute("SELECT id FROM cases WHERE key = ?", (key,)).fetchone()[0])

    def cases(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the numbers and descriptions of all cases."""
        with self._reading():
            rows = self._file.execute("SELECT id, description FROM cases ORDER BY id").fetchall()
            return [(number, _checked(json.loads(text), DESCRIPTION, f"the description of case {number}")) for number, text in rows]

    def done(self, case: int) -> set[str]:
        """Return the parts of a case that are computed."""
        with self._reading():
            return {part for (part,) in self._file.execute("SELECT part FROM parts WHERE case_id = ?", (case,))}

    def add(self, case: int, part: str, layouts: list[Layout], rejected: list[Rejected], remarks: list[str]) -> None:
        """Add the results of a part of a case, all at once."""
        rows: list[tuple[Any, ...]] = [(case, _degrees_text(layout.degrees), None, None, layout_text(layout)) for layout in layouts]
        rows += [(case, _degrees_text(one.degrees), one.limit, one.by, None) for one in rejected]
        with self._writing():
            self._file.executemany("INSERT OR REPLACE INTO candidates VALUES (?, ?, ?, ?, ?)", rows)
            self._file.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", (case, part, json.dumps(remarks)))

    def results(self, case: int, rates: Rates) -> tuple[list[Layout], list[Rejected], list[str]]:
        """Return the layouts of a case, what was left out, and remarks."""
        layouts, rejected, remarks = [], [], []
        with self._reading():
            for degrees, reason, excess, text in self._file.execute(
                "SELECT degrees, reason, excess, layout FROM candidates WHERE case_id = ?", (case,)
            ):
                if text is None:
                    rejected.append(Rejected(_degrees_of(json.loads(degrees)), str(reason), excess))
                else:
                    layouts.append(layout_of(text, rates))
            for (text,) in self._file.execute("SELECT remarks FROM parts WHERE case_id = ?", (case,)):
                remarks += [one for one in json.loads(text) if one not in remarks]
        return layouts, rejected, remarks


def _degrees_text(degrees: Degrees) -> str:
    return json.dumps(vars(degrees), sort_keys=True)


def layout_text(layout: Layout) -> str:
    """Return a layout as JSON, without power and price."""
    values = {one.name: getattr(layout, one.name) for one in dataclasses.fields(layout) if one.name != "rates"}
    return json.dumps({**values, "degrees": vars(layout.degrees)})


def layout_of(text: str, rates: Rates) -> Layout:
    """Return the layout that `layout_text` made a text of, with power and price."""
    values = json.loads(text)
    kinds = {one.name: TYPES[str(one.type)] for one in dataclasses.fields(Layout) if one.name not in ("degrees", "rates")}
    return Layout(**{**_checked(values, kinds, "a layout"), "degrees": _degrees_of(values.get("degrees")), "rates": rates})


def _degrees_of(values: Any) -> Degrees:
    return Degrees(**_checked(values, {one.name: TYPES[str(one.type)] for one in dataclasses.fields(Degrees)}, "the degrees of a layout"))


def _checked(values: Any, kinds: dict[str, Any], what: str) -> dict[str, Any]:
    """Return values of JSON. Raise ValueError unless they have these keys, with values of these types."""
    if not isinstance(values, dict):
        raise ValueError(f"{what} is no object")
    for name, kind in kinds.items():
        if name not in values:
            raise ValueError(f"{what} lacks {name!r}")
        if not isinstance(values[name], kind):
            raise ValueError(f"{name!r} of {what} is {str(values[name])[:40]!r}")
    return values
