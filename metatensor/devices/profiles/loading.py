"""Find, read and check profiles."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from metatensor.devices.profiles.costs import OperatorCost
from metatensor.devices.profiles.profile import KINDS_OF_WORK, PARTS, PHASES, RATES, SCOPES, DeviceProfile, Figure, Link, Source
from metatensor.devices.profiles.quantities import parse_quantity

__all__ = ["PATH_VARIABLE", "ProfileError", "device_profile", "device_profiles", "load_profile", "register"]

PATH_VARIABLE = "METATENSOR_PROFILES"
"""Environment variable with further directories of profiles, separated like those of PATH. Earlier ones win."""
KINDS = ("gpu", "tpu", "cpu", "accelerator")
NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")
MAX_BYTES = 1 << 20
HERE = Path(__file__).parent

_registered: dict[str, DeviceProfile] = {}
_read: dict[tuple[str, int, int], DeviceProfile] = {}
_lock = threading.Lock()


class ProfileError(ValueError):
    """A profile that does not exist, or a file that is not a valid profile."""


def device_profile(name: str | os.PathLike[str] | DeviceProfile) -> DeviceProfile:
    """Return the profile of a device.

    Parameters
    ----------
    name : str, os.PathLike or DeviceProfile
        A name or an alias in any case, with hyphens, underscores or spaces: ``"h100-80gb"``, ``"H100"``. Where a device is
        sold with several memories, ``"m4-max-64gb"`` is one of them. A path with a directory or ending in ``.toml`` is
        read as a file. A profile is returned as it is.

    Raises
    ------
    ProfileError
        If there is no such profile. The message has the names that are most like it.

    Examples
    --------
    >>> from metatensor.devices.profiles import device_profile
    >>> h100 = device_profile("h100-80gb")
    >>> h100.name, h100.memory, h100.rate("bfloat16")
    ('h100-sxm-80gb', 85899345920, 989400000000000.0)
    >>> h100.rate("int4") is None
    True
    """
    if isinstance(name, DeviceProfile):
        return name
    if isinstance(name, os.PathLike) or name.endswith(".toml") or os.sep in name:
        return load_profile(name)
    wanted = key_of(name)
    found = _find(wanted)
    if found is not None:
        return found
    base, _, size = wanted.rpartition("-")
    if (match := re.fullmatch(r"(\d+)gb", size)) and (found := _find(base)) is not None and found.memory_options:
        memory = int(match[1]) << 30
        if memory in found.memory_options:
            return found.with_memory(memory)
        sizes = ", ".join(f"{option >> 30}gb" for option in found.memory_options)
        raise ProfileError(f"{found.name} has no {size} of memory; it is sold with {sizes}")
    names = [*_registered, *_files(), *_aliases()]
    near = get_close_matches(wanted, names, n=5, cutoff=0.5) or [key for key in names if key.startswith(wanted[:3])][:5]
    hint = f"Did you mean {', '.join(near)}? " if near else ""
    raise ProfileError(
        f"no device profile is named {name!r}. {hint}`metatensor profiles` lists them all; directories in the environment "
        f"variable {PATH_VARIABLE} are searched for further ones"
    )


def device_profiles() -> list[str]:
    """Return the names of all profiles, sorted: those of this package, of `register` and of the user's directories."""
    return sorted({*_registered, *_files()})


def register(profile: DeviceProfile | str | os.PathLike[str]) -> DeviceProfile:
    """Add a profile, or the profile in a file, for this process. It replaces one of the same name. Return it."""
    found = profile if isinstance(profile, DeviceProfile) else load_profile(profile)
    if not NAME.fullmatch(found.name):
        raise ProfileError(f"{found.name!r} cannot name a profile: use lower-case letters, digits and hyphens")
    with _lock:
        _registered[found.name] = found
    return found


def load_profile(path: str | os.PathLike[str]) -> DeviceProfile:
    """Read a profile from a TOML file. Raise `ProfileError` if it is not valid; the message says where and why."""
    file = os.fspath(path)
    try:
        status = os.stat(file)
        key = (os.path.abspath(file), status.st_mtime_ns, status.st_size)
        found = _read.get(key)
        if found is None:
            if status.st_size > MAX_BYTES:
                raise ProfileError(f"{file}: {status.st_size:,} bytes are too many for a profile")
            found = _read[key] = Reader(file).profile(parse_toml(file))
        return found
    except OSError as error:
        raise ProfileError(f"{file}: {error.strerror}") from error


def profile_of_text(text: str, file: str) -> DeviceProfile:
    """Return the profile that a file of this name with this text would have."""
    return Reader(file).profile(_toml(text, file))


def _files() -> dict[str, Path]:
    """Return the files of all profiles by name. A user's file replaces one of this package."""
    folders = [Path(entry) for entry in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if entry]
    found: dict[str, Path] = {}
    for folder in (*folders, HERE):
        if not folder.is_dir():
            raise ProfileError(f"{PATH_VARIABLE} names {str(folder)!r}, which is not a directory")
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def key_of(name: str) -> str:
    """Return a name in lower case with hyphens."""
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _find(key: str) -> DeviceProfile | None:
    """Return the profile with this name, else the one with this alias, else None."""
    if key in _registered:
        return _registered[key]
    files = _files()
    return load_profile(files[key]) if key in files else _aliases().get(key)


def _aliases() -> dict[str, DeviceProfile]:
    """Return all profiles by alias."""
    files = [load_profile(path) for name, path in _files().items() if name not in _registered]
    found: dict[str, DeviceProfile] = {}
    for profile in [*_registered.values(), *files]:
        for alias in profile.aliases:
            found.setdefault(key_of(alias), profile)
    return found


def parse_toml(file: str) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    with open(file, "rb") as stream:
        try:
            return _toml(stream.read().decode(), file)
        except UnicodeDecodeError as error:
            raise ProfileError(f"{file}: {error}") from error


def _toml(text: str, file: str) -> dict[str, Any]:
    """Return the contents of TOML text."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # the same parser, as a package
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{file}: {error}") from error


class Reader:
    """Checks the contents of one file and makes the profile."""

    error = ProfileError
    """What is raised if the file is not valid."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.figures: dict[str, Figure] = {}
        self.sources: dict[str, Source] = {}

    def wrong(self, place: str, reason: str) -> ProfileError:
        return self.error(f"{self.file}: {place}: {reason}" if place else f"{self.file}: {reason}")

    def table(self, parent: Mapping[str, Any], key: str, place: str, known: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return a table, empty if it is missing. With ``known``, other keys are errors."""
        value = parent.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(place, "must be a table")
        if known:
            self.keys(value, place, known)
        return value

    def keys(self, value: Mapping[str, Any], place: str, known: tuple[str, ...]) -> None:
        for key in value:
            if key not in known:
                near = get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; choose from {', '.join(known)}"
                raise self.wrong(place, f"unknown key {key!r}{hint}")

    def text(self, parent: Mapping[str, Any], key: str, place: str = "", required: bool = False) -> str | None:
        value = parent.get(key)
        if value is None and not required:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(place, f"{key} must be a text")
        return value

    def texts(self, parent: Mapping[str, Any], key: str, place: str = "") -> list[str]:
        value = parent.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.wrong(place, f"{key} must be a list of texts")
        return value

    def quantity(self, text: Any, dimension: str, place: str) -> int | float:
        if not isinstance(text, str):
            raise self.wrong(place, f"the value must be a text such as {'80 GiB' if dimension == 'bytes' else '5 us'!r}, got {text!r}")
        try:
            return parse_quantity(text, dimension)
        except ValueError as error:
            raise self.wrong(place, str(error)) from None

    def figure(self, parent: Mapping[str, Any], key: str, table: str, dimension: str) -> Any:
        """Return a figure's value in base units, or None if it is missing. Every figure must name a source."""
        if key not in parent:
            return None
        place = f"{table}.{key}"
        entry = parent[key]
        if not isinstance(entry, dict):
            raise self.wrong(place, 'must be { value = "NUMBER UNIT", source = "KEY" }')
        self.keys(entry, place, ("value", "source", "estimate", "note"))
        source = self.text(entry, "source", place, required=True)
        if source not in self.sources:
            raise self.wrong(place, f"[sources.{source}] is missing")
        estimate = entry.get("estimate", False)
        if not isinstance(estimate, bool):
            raise self.wrong(place, "estimate must be true or false")
        value = self.quantity(entry.get("value"), dimension, place)
        self.figures[place] = Figure(value, entry["value"], self.sources[source], estimate, self.text(entry, "note", place))
        return value

    def read_sources(self, contents: Mapping[str, Any]) -> None:
        """Read the table of sources, which figures name."""
        for key in self.table(contents, "sources", "sources"):
            entry = self.table(contents["sources"], key, f"sources.{key}", ("title", "url"))
            title = self.text(entry, "title", f"sources.{key}", required=True) or ""
            self.sources[key] = Source(title, self.text(entry, "url", f"sources.{key}") or "")

    def rates(self, contents: Mapping[str, Any], key: str) -> dict[str, float]:
        table = self.table(contents, key, key, RATES)
        return {name: self.figure(table, name, key, "operations per second") for name in table}

    def links(self, contents: Mapping[str, Any]) -> tuple[Link, ...]:
        found = []
        for name, entry in self.table(contents, "links", "links").items():
            place = f"links.{name}"
            if not isinstance(entry, dict):
                raise self.wrong(place, "must be a table")
            self.keys(entry, place, ("scope", "bandwidth"))
            scope = entry.get("scope")
            if scope not in SCOPES:
                raise self.wrong(place, f"scope must be one of {', '.join(SCOPES)}, got {scope!r}")
            found.append(Link(name, scope, self.figure(entry, "bandwidth", place, "bytes per second")))
        return tuple(found)

    def efficiency(self, contents: Mapping[str, Any]) -> dict[str, float]:
        """Return the table of parts of the peak by kind."""
        table = self.table(contents, "efficiency", "efficiency", PARTS)
        found = {name: self.figure(table, name, "efficiency", "ratio") for name in table}
        for name, value in found.items():
            if value > 1:
                raise self.wrong(f"efficiency.{name}", f"a part of the peak is at most 1, got {value}")
        return found

    def dtype(self, contents: Mapping[str, Any]) -> str:
        """Return the dtype of the measured costs."""
        name = self.text(contents.get("operators", {}), "dtype", "operators") or "float32"
        if name not in RATES:
            raise self.wrong("operators.dtype", f"must be one of {', '.join(RATES)}, got {name!r}")
        return name

    def costs(self, contents: Mapping[str, Any], key: str) -> dict[str, OperatorCost]:
        """Return a table of measured costs. It names its source once."""
        table = self.table(contents, key, key)
        if not table:
            return {}
        source = self.text(table, "source", key, required=True)
        if source not in self.sources:
            raise self.wrong(key, f"[sources.{source}] is missing")
        found = {}
        for name, entry in table.items():
            if name in ("source", "dtype"):
                continue
            place = f"{key}.{name}"
            if key == "kinds" and name not in KINDS_OF_WORK:
                self.keys({name: entry}, key, KINDS_OF_WORK)
            if not isinstance(entry, dict) or not entry:
                raise self.wrong(place, 'must be { overhead = "2 us", bandwidth = "9 GB/s", rate = "50 GFLOP/s" } or '
                                        "{ bytes = [1024, 1048576], seconds = [2e-6, 5e-4] }")  # fmt: skip
            self.keys(entry, place, ("overhead", "bandwidth", "rate", "repeated", "bytes", "seconds"))
            found[name] = self.cost(entry, place)
        return found

    def cost(self, entry: Mapping[str, Any], place: str) -> OperatorCost:
        """Return one measured cost."""

        def known(name: str, dimension: str) -> Any:
            return self.quantity(entry[name], dimension, f"{place}.{name}") if name in entry else None

        bytes, seconds = (self.numbers(entry, name, place) for name in ("bytes", "seconds"))
        if len(bytes) != len(seconds):
            raise self.wrong(place, f"bytes and seconds have {len(bytes)} and {len(seconds)} numbers; they must have as many")
        if any(a >= b for a, b in zip(bytes, bytes[1:], strict=False)):
            raise self.wrong(f"{place}.bytes", "the numbers must increase")
        if bytes and ("overhead" in entry or "bandwidth" in entry):
            raise self.wrong(place, "has both points and a line; leave out either bytes and seconds, or overhead and bandwidth")
        return OperatorCost(known("overhead", "seconds") or 0.0, known("bandwidth", "bytes per second"),
                            known("rate", "operations per second"), known("repeated", "bytes per second"), bytes, seconds)  # fmt: skip

    def numbers(self, entry: Mapping[str, Any], key: str, place: str) -> tuple[float, ...]:
        """Return a list of numbers, none of them negative."""
        value = entry.get(key, [])
        if not isinstance(value, list) or not all(type(number) in (int, float) and 0 <= number < float("inf") for number in value):
            raise self.wrong(f"{place}.{key}", f"must be a list of numbers of {key}, got {value!r}")
        return tuple(value)

    def profile(self, contents: dict[str, Any]) -> DeviceProfile:
        """Return the profile of a file with these contents."""
        name = Path(self.file).stem
        if not NAME.fullmatch(name):
            raise self.wrong("", f"{name!r} cannot name a profile: use lower-case letters, digits and hyphens")
        self.keys(contents, "", ("title", "vendor", "kind", "backend", "architecture", "aliases", "note", "memory", "rates",
                                 "vector_rates", "achieved", "links", "power", "price", "launch", "efficiency", "operators", "kinds",
                                 "sources"))  # fmt: skip
        kind = self.text(contents, "kind", required=True)
        if kind not in KINDS:
            raise self.wrong("", f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        self.read_sources(contents)
        memory = self.table(contents, "memory", "memory", ("capacity", "visible", "options", "bandwidth"))
        capacity = self.figure(memory, "capacity", "memory", "bytes")
        visible = self.figure(memory, "visible", "memory", "bytes")
        options = tuple(int(self.quantity(text, "bytes", "memory.options")) for text in self.texts(memory, "options", "memory"))
        if options and capacity not in options:
            raise self.wrong("memory.options", "the capacity must be one of them")
        if capacity is not None and visible is not None and visible > capacity:
            raise self.wrong("memory.visible", "is more than the capacity")
        power = self.table(contents, "power", "power", ("maximum",))
        price = self.table(contents, "price", "price", ("hour",))
        launch = self.table(contents, "launch", "launch", ("overhead", *PHASES))
        return DeviceProfile(
            name=name,
            title=self.text(contents, "title", required=True) or "",
            vendor=self.text(contents, "vendor", required=True) or "",
            kind=kind,
            architecture=self.text(contents, "architecture") or "",
            backend=self.text(contents, "backend"),
            memory=capacity,
            visible_memory=visible,
            memory_options=options,
            memory_bandwidth=self.figure(memory, "bandwidth", "memory", "bytes per second"),
            rates=self.rates(contents, "rates"),
            vector_rates=self.rates(contents, "vector_rates"),
            links=self.links(contents),
            power=self.figure(power, "maximum", "power", "watts"),
            price=self.figure(price, "hour", "price", "price per hour"),
            launch_overhead=self.figure(launch, "overhead", "launch", "seconds"),
            phase_overheads={phase: self.figure(launch, phase, "launch", "seconds") for phase in PHASES if phase in launch},
            efficiency=self.efficiency(contents),
            achieved=self.rates(contents, "achieved"),
            operators=self.costs(contents, "operators"),
            kinds=self.costs(contents, "kinds"),
            operator_dtype=self.dtype(contents),
            aliases=tuple(self.texts(contents, "aliases")),
            note=self.text(contents, "note"),
            figures=self.figures,
            path=self.file,
        )
