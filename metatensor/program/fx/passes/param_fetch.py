"""The attributes of layers, for backends that lower layers themselves."""

from __future__ import annotations

from typing import Any

from metatensor import nn

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes", "module_fetch_book"]


def default_matching(name: str, target_version: int) -> str:
    """Return the name of an attribute unchanged."""
    return name


_CONV = ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"]
_NORM = ["weight", "bias", "running_mean", "running_var", "eps"]
module_fetch_book: dict[type, tuple[int, list[str], Any]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (1, _CONV, default_matching),
    nn.BatchNorm2d: (2, _NORM, default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"], default_matching),
    nn.ReLU: (1, ["inplace"], default_matching),
}
"""For each class of layers: its version, the names of its attributes, and a function that maps these names."""


def extract_attrs_for_lowering(mod: Any) -> dict[str, Any]:
    """Return the class of a layer, under ``"name"``, and the attributes that `module_fetch_book` lists.

    Raises
    ------
    RuntimeError
        If the version of the layer is greater than the one in `module_fetch_book`.
    """
    found: dict[str, Any] = {"name": f"{type(mod).__module__}.{type(mod).__qualname__}"}
    if type(mod) in module_fetch_book:
        version, names, matching = module_fetch_book[type(mod)]
        if version < (mod._version or 0):
            raise RuntimeError(f"extract_attrs_for_lowering: {type(mod).__name__} has version {mod._version}, known is {version}")
        for name in names:
            found[name] = getattr(mod, matching(name, mod._version))
    return found


def lift_lowering_attrs_to_nodes(fx_module: Any) -> None:
    """Set ``attrs_for_lowering`` of each node that calls a layer, also in graph modules inside. See `extract_attrs_for_lowering`."""
    for node in fx_module.graph.find_nodes(op="call_module"):
        called = fx_module.get_submodule(node.target)
        inside = getattr(called, "graph", None)
        if inside is not None:
            lift_lowering_attrs_to_nodes(called)
            continue
        node.attrs_for_lowering = extract_attrs_for_lowering(called)
