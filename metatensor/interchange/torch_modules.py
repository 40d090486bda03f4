"""Map PyTorch's module names to this package's, for ``import torch`` and for class names in checkpoints."""

from __future__ import annotations

__all__ = ["ALIAS", "SHARED", "TREE", "name_of", "target_of"]

ALIAS = "metatensor.torch_api"
"""The package that makes ``import torch`` import metatensor."""
TREE = f"{ALIAS}.torch"
"""The package of modules that exist only for compatibility with PyTorch."""

SHARED = {
    f"torch.{name}": f"metatensor.{name}"
    for name in ("autograd", "distributed", "distributions", "fft", "func", "linalg", "masked", "nn", "optim", "profiler",
                 "signal", "special",
                 "utils")
} | {
    "torch.futures": "metatensor.distributed.futures",
    "torch.fx": "metatensor.program.fx",
    "torch.utils.data": "metatensor.data",
}
"""Modules of PyTorch, including their submodules, that map to public modules of metatensor."""


def target_of(name: str) -> str:
    """Return the counterpart of PyTorch's module ``name``, such as "metatensor.nn.init" for "torch.nn.init"."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        head = ".".join(parts[:count])
        if head in SHARED:
            return SHARED[head] + name[len(head) :]
    return TREE + name[len("torch") :]


def name_of(target: str) -> str | None:
    """Return PyTorch's name for a module, such as "torch.nn.init" for "metatensor.nn.init", or None if there is none."""
    if target == TREE or target.startswith(TREE + "."):
        return "torch" + target[len(TREE) :]
    for theirs, ours in SHARED.items():
        if target == ours or target.startswith(ours + "."):
            return theirs + target[len(ours) :]
    return None
