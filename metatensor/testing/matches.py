"""Check that a function computes the same metadata on the meta device as on a real device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.modes import DispatchMode

__all__ = ["check_meta_matches"]


class _Trace(DispatchMode):
    """Records each operator and the metadata of its results."""

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
    if isinstance(value, dict):
        return {key: _metadata(item) for key, item in value.items()}
    return type(value).__name__


def check_meta_matches(fn: Callable[..., Any], *inputs: Any, device: str = "cpu", **kwargs: Any) -> None:
    """Run a function on ``device`` and on meta, and compare the metadata of every operator's results.

    Parameters
    ----------
    fn : callable
        A function, a module, or a method of a module. A module is copied to meta for the meta run.
    *inputs, **kwargs
        Arguments of ``fn``. They must include all tensors that it uses, except the parameters and buffers of a module.
    device : str
        The device to compare with.

    Raises
    ------
    AssertionError
        For the first operator whose results differ in shape, strides, offset or dtype, if ``fn`` raises on meta only,
        or if its return value differs. Exceptions that ``fn`` raises on ``device`` are passed on.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.testing.check_meta_matches(lambda x: (x @ x.T).sum(0), mt.ones(2, 3))
    """
    real, meta = _Trace(), _Trace()
    moved = [_moved(value, device) for value in inputs], {name: _moved(value, device) for name, value in kwargs.items()}
    owner = fn if isinstance(fn, mt.nn.Module) else getattr(fn, "__self__", None)
    owner = owner if isinstance(owner, mt.nn.Module) else None
    there = mt.to_meta((owner, *moved))
    on_meta = fn if owner is None else there[0] if owner is fn else getattr(there[0], fn.__name__)
    with mt.device(device), real:
        expected = fn(*moved[0], **moved[1])
    raised = got = None
    try:
        with mt.device("meta"), meta:
            got = on_meta(*there[1], **there[2])
    except Exception as error:
        raised = error
    for number, (one, other) in enumerate(zip(real.calls, meta.calls, strict=False)):
        if one != other:
            raise AssertionError(f"check_meta_matches: operator {number}: {one[0]} gives {one[1]} on {device}, "
                                 f"{other[0]} gives {other[1]} on meta") from raised  # fmt: skip
    if raised is not None:
        done = len(meta.calls)
        after = f" after {done} operators; the next on {device} was {real.calls[done][0]}" if done < len(real.calls) else ""
        hint = "; tensors that the function uses have to be among its inputs" if "same device" in str(raised) else ""
        raise AssertionError(f"check_meta_matches: on meta it raises {type(raised).__name__}: {raised}{after}{hint}") from raised
    if len(real.calls) != len(meta.calls):
        more, where = (real.calls, device) if len(real.calls) > len(meta.calls) else (meta.calls, "meta")
        first = more[min(len(real.calls), len(meta.calls))]
        raise AssertionError(f"check_meta_matches: {len(real.calls)} operators on {device}, {len(meta.calls)} on meta; {first[0]} "
                             f"gives {first[1]} on {where} alone")  # fmt: skip
    if _metadata(expected) != _metadata(got):
        raise AssertionError(f"check_meta_matches: the result is {_metadata(expected)} on {device}, {_metadata(got)} on meta")


def _moved(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, mt.Tensor) and value.device.type != device else value
