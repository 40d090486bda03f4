"""Files of measured steps, and profiles that were fitted to them.

A file of measurements is JSON::

    {"measurements": [
       {"name": "tp2", "model": "model.py:GPT", "inputs": ["int64[batch,4096]"], "devices": "8xH100", "step_time_s": 0.725,
        "global_batch": 16, "loss": "model.py:loss", "precision": "bf16-master", "optimizer": "adamw", "gradient_dtype": "float32",
        "layout": {"tensor": 2, "pipeline": 1, "shard": 1, "sequence": true, "micro_batch": 1, "recompute": "none"}}]}

``layout`` has the keys of `Degrees`; those that are missing have its defaults, and ``data`` follows from the devices. Keys of the file
itself, besides ``measurements``, hold for all measurements that lack them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import metatensor as mt
from metatensor.plan.fitting import FittedProfile, Measurement
from metatensor.plan.layouts import Degrees

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["profile_text", "read_measurements"]

KEYS = {"name": str, "model": str, "inputs": list, "devices": str, "step_time_s": (int, float), "global_batch": int, "loss": str,
        "precision": str, "optimizer": str, "gradient_dtype": str, "layout": dict, "stages": str}  # fmt: skip
"""The keys of a measurement and their types."""
NEEDED = ("model", "inputs", "devices", "step_time_s", "global_batch", "layout")
LISTS = {"tensor": "tensor", "pipeline": "pipeline", "context": "context", "expert": "expert", "shard": "shard", "sequence": "sequence",
         "micro_batch": "micro_batches", "recompute": "recompute", "schedule": "schedules", "virtual_stages": "virtual_stages",
         "offload": "offload"}  # fmt: skip
"""The argument of `search` for each key of a layout."""


def read_measurements(path: str | PathLike[str], made: Callable[[dict[str, Any]], tuple[Any, tuple, Any]]) -> list[Measurement]:
    """Read a file of measured steps.

    Parameters
    ----------
    path : str or path
        The file.
    made : callable
        Returns the model, its inputs as `search` takes them, and the loss or None, for an entry of the file.

    Raises
    ------
    ValueError
        If the file is not as documented. The message says where.
    OSError
        If the file cannot be read.
    """
    try:
        contents = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(contents, dict) or not isinstance(contents.get("measurements"), list):
        raise ValueError(f'{path}: must be an object with a list "measurements"')
    common = {key: value for key, value in contents.items() if key != "measurements"}
    found = []
    for number, entry in enumerate(contents["measurements"]):
        place = f"{path}: measurements[{number}]"
        if not isinstance(entry, dict):
            raise ValueError(f"{place}: must be an object")
        entry = {**common, **entry}
        _check(entry, place)
        model, inputs, loss = made(entry)
        settings = _settings(entry, place)
        if loss is not None:
            settings["loss"] = loss
        group = str({key: value for key, value in entry.items() if key not in ("name", "global_batch", "step_time_s")})
        name = entry.get("name") or f"step {number}"
        found.append(Measurement(entry["step_time_s"], model, inputs, entry["devices"], settings, name, group))
    return found


def _check(entry: dict[str, Any], place: str) -> None:
    for key, value in entry.items():
        if key not in KEYS:
            raise ValueError(f"{place}: unknown key {key!r}; the keys are {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):  # type: ignore[arg-type]
            raise ValueError(f"{place}: {key} has a value of the wrong type: {value!r}")
    missing = [key for key in NEEDED if key not in entry]
    if missing:
        raise ValueError(f"{place}: {missing[0]} is missing")


def _settings(entry: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the arguments of `search` for one layout."""
    layout = {one.name: one.default for one in fields(Degrees)}
    for key, value in entry["layout"].items():
        if key not in layout:
            raise ValueError(f"{place}.layout: unknown key {key!r}; the keys are {', '.join(layout)}")
        if type(value) is not type(layout[key]):
            raise ValueError(f"{place}.layout: {key} must be like {layout[key]!r}, got {value!r}")
        layout[key] = value
    settings: dict[str, Any] = {argument: [layout[key]] for key, argument in LISTS.items()}
    settings.update({key: entry[key] for key in ("global_batch", "precision", "optimizer", "stages") if key in entry})
    if "gradient_dtype" in entry:
        dtype = getattr(mt, entry["gradient_dtype"], None)
        if not isinstance(dtype, mt.dtype):
            raise ValueError(f"{place}: gradient_dtype {entry['gradient_dtype']!r} is not a dtype")
        settings["gradient_dtype"] = dtype
    return settings


def profile_text(found: FittedProfile, title: str = "") -> str:
    """Return the fitted profile as TOML: the file of the original profile with the fitted efficiencies."""
    text = Path(found.base.path).read_text(encoding="utf-8")
    text = re.sub(r"(?m)^aliases = .*\n", "", text)
    text = re.sub(r"(?m)^\[efficiency\][^\n]*\n(?:(?!\[).*\n)*", "", text)
    text = re.sub(r"(?m)^\[sources\.fit\][^\n]*\n(?:(?!\[).*\n?)*", "", text)
    if title:
        text = re.sub(r"(?m)^title = .*$", f"title = {json.dumps(title)}", text, count=1)
    lines = ["[efficiency]"]
    lines += [f'{kind} = {{ value = "{value * 100:.4g} %", source = "fit" }}' for kind, value in found.profile.efficiency.items()]
    count = len(found.names)
    lines += ["", "[sources.fit]", f'title = "Fitted to {count} measured steps by metatensor fit-profile"', ""]
    start = text.index("[sources.")
    return text[:start] + "\n".join(lines[: lines.index("")]) + "\n\n" + text[start:].rstrip("\n") + "\n\n" + "\n".join(lines[-3:])
