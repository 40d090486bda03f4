"""Recompute parts of a model in backward without changing its code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import metatensor as mt
from metatensor.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

__all__ = ["checkpointed", "recomputed", "repeated_layers"]

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution")
"""The operators whose results "selective" keeps, because recomputing them is most expensive."""


def repeated_layers(model: Any) -> list[tuple[str, Any]]:
    """Return the paths and modules of a model's layers: members of a list of at least two modules of one class.

    For nested lists, only the outermost one is considered.
    """
    found: list[tuple[str, Any]] = []
    taken: tuple[str, ...] = ()
    for path, module in model.named_modules():
        if isinstance(module, (mt.nn.ModuleList, mt.nn.Sequential)) and not f"{path}.".startswith(taken):
            members = list(module.named_children())
            if len(members) > 1 and len({type(member) for _, member in members}) == 1:
                found += [(f"{path}.{name}".lstrip("."), member) for name, member in members]
                taken += (f"{path}." if path else "",)
    return found


def _chosen(model: Any, what: str) -> list[tuple[str, Any]]:
    if what in ("full", "selective"):
        found = repeated_layers(model)
        if not found:
            raise ValueError(f"recompute={what!r}: the model has no list of layers of one class; name modules by a pattern of paths")
        return found
    found = [(path, module) for path, module in model.named_modules() if path and fnmatchcase(path, what)]
    if not found:
        raise ValueError(f"recompute={what!r}: no module has such a path; there are {', '.join(_examples(model))}")
    inner = tuple(f"{path}." for path, _ in found)
    return [(path, module) for path, module in found if not path.startswith(inner)]


def _examples(model: Any) -> list[str]:
    return [path for path, _ in model.named_modules() if path][:8] or ["no modules inside the model"]


def _policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    name = op._schema.name.partition("::")[2]
    return CheckpointPolicy.MUST_SAVE if name in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def checkpointed(forward: Callable[..., Any], selective: bool) -> Callable[..., Any]:
    """Return a forward whose calls are computed again in backward, except products and convolutions if `selective`."""
    options: dict[str, Any] = {"use_reentrant": False}
    if selective:
        options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, _policy)

    @functools.wraps(forward)
    def called(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, **options, **kwargs)

    return called


@contextmanager
def recomputed(model: Any, what: str) -> Iterator[list[str]]:
    """Checkpoint parts of ``model`` inside the block.

    Parameters
    ----------
    model : nn.Module
        The model. Its code is not changed.
    what : str
        "none", "full" (each repeated layer), "selective" (each repeated layer, but results of matrix products and
        convolutions are kept), or a pattern of module paths such as ``"encoder.layer.*"``.

    Yields
    ------
    list of str
        The paths of the modules that are recomputed.

    Raises
    ------
    ValueError
        If no module matches.
    """
    if what == "none":
        yield []
        return
    chosen = _chosen(model, what)
    own = [module.__dict__.get("forward") for _, module in chosen]
    try:
        for _, module in chosen:
            module.__dict__["forward"] = checkpointed(module.forward, what == "selective")
        yield [path for path, _ in chosen]
    finally:
        for (_, module), before in zip(chosen, own, strict=True):
            if before is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = before
