"""Whether a function says on meta what it does on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.modes import DispatchMode

__all__ = ["check_meta_matches"]


class _Trace(DispatchMode):
    """Writes down each operator with its results' metadata."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        out = op(*args, **kwargs)
        self.calls.append((op.name, _metadata(out)))
        return out


def _metadata(value: Any) -> Any:
    if isinstance(value, mt.Tensor):
        return f"{value.dtype}{list(value.shape)} strides {list(value.stride())} offset {value.storage_offset()}"
    if isinstance(value, (list, tuple)):
        return [_metadata(item) for item in value]
    return type(value).__name__


def check_meta_matches(fn: Callable[..., Any], *inputs: Any, device: str = "cpu", **kwargs: Any) -> None:
    """Run ``fn(*inputs, **kwargs)`` on ``device`` and on meta, and compare the metadata of every operator's results.

    A module is run as it is, and as its copy on meta. Raises AssertionError for the first operator that differs, with
    both; whatever ``fn`` raises on the device is raised, and what it raises on meta alone is an AssertionError.
    """
    real, meta = _Trace(), _Trace()
    moved = [_moved(value, device) for value in inputs], {name: _moved(value, device) for name, value in kwargs.items()}
    there = mt.to_meta((fn if isinstance(fn, mt.nn.Module) else None, *moved))
    with mt.device(device), real:
        expected = fn(*moved[0], **moved[1])
    try:
        with mt.device("meta"), meta:
            got = (there[0] or fn)(*there[1], **there[2])
    except Exception as error:
        done = len(meta.calls)
        after = f" after {done} operators; the next on {device} was {real.calls[done][0]}" if done < len(real.calls) else ""
        raise AssertionError(f"check_meta_matches: on meta it raises {type(error).__name__}: {error}{after}") from error
    for number, (one, other) in enumerate(zip(real.calls, meta.calls, strict=False)):
        if one != other:
            raise AssertionError(f"check_meta_matches: operator {number}: {one[0]} gives {one[1]} on {device}, "
                                 f"{other[0]} gives {other[1]} on meta")  # fmt: skip
    if len(real.calls) != len(meta.calls):
        raise AssertionError(f"check_meta_matches: {len(real.calls)} operators on {device}, {len(meta.calls)} on meta")
    if _metadata(expected) != _metadata(got):
        raise AssertionError(f"check_meta_matches: the result is {_metadata(expected)} on {device}, {_metadata(got)} on meta")


def _moved(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, mt.Tensor) and value.device.type != device else value
