"""Which module of this package answers to which of PyTorch's: for ``import torch``, and for the names in PyTorch's files."""

from __future__ import annotations

__all__ = ["ALIAS", "SHARED", "TREE", "name_of", "target_of"]

ALIAS = "metatensor.torch_api"
"""The package that makes ``import torch`` find this one."""
TREE = f"{ALIAS}.torch"
"""Where the modules are that exist only because PyTorch has them."""

SHARED = {
    f"torch.{name}": f"metatensor.{name}"
    for name in ("autograd", "distributed", "distributions", "fft", "func", "linalg", "masked", "nn", "optim", "signal", "special",
                 "utils")
} | {
    "torch.futures": "metatensor.distributed.futures",
    "torch.fx": "metatensor.program.fx",
    "torch.utils.data": "metatensor.data",
}
"""Modules of PyTorch, with all below them, that are modules of metatensor itself."""


def target_of(name: str) -> str:
    """Return the name of the module that answers to ``name``: "metatensor.nn.init" for "torch.nn.init"."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        head = ".".join(parts[:count])
        if head in SHARED:
            return SHARED[head] + name[len(head) :]
    return TREE + name[len("torch") :]


def name_of(target: str) -> str | None:
    """Return the name that a module of ours answers to: ``"metatensor.nn.init"`` gives ``"torch.nn.init"``; None where it has none."""
    if target == TREE or target.startswith(TREE + "."):
        return "torch" + target[len(TREE) :]
    for theirs, ours in SHARED.items():
        if target == ours or target.startswith(ours + "."):
            return theirs + target[len(ours) :]
    return None
