"""Model FLOPs utilization (MFU): the operations that a step needs, by a convention, divided by those that the device could do.

MFU is ``operations / (seconds * peak rate)``. Conventions differ in what they count, so only figures of the same convention can
be compared.
Recomputation in the backward pass is never counted; including it would give the hardware FLOPs utilization.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.nested import tensors_in
from metatensor.analysis.recomputation import repeated_layers

__all__ = ["CONVENTIONS", "Convention", "batch_of", "model_flops"]


class Convention(NamedTuple):
    """A way to count the operations of a model."""

    name: str
    formula: str
    """The operations of a training step; an inference has a third of them."""
    source: str
    leaves_out: str


CONVENTIONS = {
    each.name: each
    for each in (
        Convention("torch", "2 for each multiply-add of matrix products, convolutions and attention that run",
                   "PyTorch, torch.utils.flop_counter", "element-wise operators, reductions, normalization, the optimizer"),
        Convention("macs", "1 for each multiply-add of the same operators, over a peak that counts 2: half of torch",
                   "profilers that report multiply-accumulates, such as fvcore and ptflops", "the same as torch"),
        Convention("6nd", "6 N D with N parameters and D tokens", "Kaplan et al., Scaling Laws for Neural Language Models (2020), 2.1",
                   "products of attention scores; it counts embeddings, which multiply nothing, and normalization"),
        Convention("megatron", "72 B s l h^2 (1 + s / (6 h) + V / (12 l h)) for batch B, s tokens, l layers of width h, V words",
                   "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters (2021), 5.1, without recomputation",
                   "the width of the MLP (taken as 4 h), grouped queries, causal masks, anything but a decoder of equal layers"),
    )
}  # fmt: skip
"""The conventions by name."""


def model_flops(convention: str, model: Any, inputs: Any, counted: int, training: bool) -> tuple[float | None, str]:
    """Return the operations of one pass (with backward if ``training``) by a convention, and if unknown, why.

    Parameters
    ----------
    convention : str
        A name in `CONVENTIONS`.
    model : nn.Module
        The model, on any device.
    inputs : object
        Its arguments, in nested containers.
    counted : int
        Operations that the run counted, without recomputation.
    training : bool
        Whether the pass has a backward half.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"convention {convention!r} is unknown; choose from {', '.join(CONVENTIONS)}")
    if convention in ("torch", "macs"):
        return (counted / 2 if convention == "macs" else float(counted)), ""
    if not isinstance(model, mt.nn.Module):
        return None, f"{convention} needs a module"
    tokens = next((t for t in tensors_in(inputs) if not t.is_floating_point() and t.dtype != mt.bool and t.dim() > 0), None)
    if tokens is None:
        return None, f"{convention} counts tokens, and no input has whole numbers"
    part = 1.0 if training else 1 / 3
    if convention == "6nd":
        return 6.0 * sum(p.numel() for p in model.parameters()) * tokens.numel() * part, ""
    layers = len(repeated_layers(model))
    tables = [module for module in model.modules() if isinstance(module, mt.nn.Embedding)]
    if not layers or not tables or tokens.dim() != 2:
        return None, "megatron needs a list of equal layers, an embedding, and an input of (batch, tokens)"
    words = max(tables, key=lambda table: table.num_embeddings)
    h, v, (batch, s) = words.embedding_dim, words.num_embeddings, tokens.shape
    return 72.0 * batch * s * layers * h * h * (1 + s / (6 * h) + v / (12 * layers * h)) * part, ""


def batch_of(inputs: Any) -> int | None:
    """Return the first size of the first input that has dimensions, or None if there is none."""
    return next((int(t.shape[0]) for t in tensors_in(inputs) if t.dim() > 0), None)
