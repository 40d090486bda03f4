"""The entry points of installed distributions, and where they come from."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

__all__ = ["distribution_of", "installed", "own_version", "reason_of"]


def installed(group: str) -> Iterable[Any]:
    """Return the entry points of a group. Those that cannot be read are left out, with a warning."""
    from importlib.metadata import entry_points

    try:
        return entry_points(group=group)
    except Exception:  # the entry points of some distribution are malformed
        return list(_readable(group))


def _readable(group: str) -> Iterable[Any]:
    """Yield the entry points of a group, distribution by distribution. Warn about those that cannot be read."""
    from importlib.metadata import distributions

    seen = set()
    for distribution in distributions():
        try:
            name = re.sub(r"[-_.]+", "-", distribution.name).lower()
            found = list(distribution.entry_points)
        except Exception as error:
            warnings.warn(f"the entry points of {_place_of(distribution)} cannot be read: {reason_of(error)}", stacklevel=2)
            continue
        if name not in seen:  # an earlier distribution on the path shadows later ones of the same name
            seen.add(name)
            yield from (entry for entry in found if entry.group == group)


def _place_of(distribution: Any) -> str:
    return ascii(str(getattr(distribution, "_path", distribution)))


def distribution_of(entry: Any) -> tuple[str, str]:
    """Return the name and version of an entry point's distribution. If there is none, return the module name and ""."""
    dist = getattr(entry, "dist", None)
    if dist is None:
        return entry.value.partition(":")[0], ""
    try:
        return str(dist.name or "?"), str(dist.version or "")
    except Exception:  # the metadata of the distribution are malformed
        return "?", ""


def own_version() -> str:
    """Return the version of the installed distribution, or an empty string."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("metatensor-device")
    except PackageNotFoundError:
        return ""


def reason_of(error: BaseException) -> str:
    """Return the class and message of an error on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
