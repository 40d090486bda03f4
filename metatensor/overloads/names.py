"""Which operator of PyTorch's dispatcher an operator of metatensor is, by name."""

from __future__ import annotations

__all__ = ["EXTRA", "ONLY_TENSOR", "aten_names", "registry_names"]

# Operators of the dispatcher that calls are translated to, beside those of the same name.
EXTRA = frozenset((
    "_local_scalar_dense", "_log_softmax", "_softmax", "addmm", "convolution", "index", "index_put", "index_put_", "mm",
    "native_layer_norm", "t", "unbind", "view",
))  # fmt: skip

# Numbers go to the overload for tensors, although there is one for numbers.
ONLY_TENSOR = frozenset(("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "floor_divide", "floor_divide_"))

_OTHERS = {
    "_index": "index", "_index_put_": "index_put_", "_real": "real", "_imag": "imag", "item": "_local_scalar_dense",
    "nn.functional.logsigmoid": "log_sigmoid",
}  # fmt: skip
_BACK = {"_softmax": "softmax", "_log_softmax": "log_softmax", **{aten: name for name, aten in _OTHERS.items()}}
_PREFIXES = ("nn.functional.", "linalg.", "fft.", "special.")


def aten_names(name: str) -> tuple[str, ...]:
    """Return the names that an operator of metatensor may have in PyTorch's dispatcher, the likeliest first."""
    if name in _OTHERS:
        return (_OTHERS[name],)
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            return (rest,) if prefix == "nn.functional." else (f"{prefix[:-1]}_{rest}",)
    return (name,)


def registry_names(aten: str) -> tuple[str, ...]:
    """Return the names that an operator of PyTorch's dispatcher may have in metatensor's registry, the likeliest first."""
    found = [_BACK[aten]] if aten in _BACK else []
    found.append(aten)
    for prefix in _PREFIXES:
        stem = prefix[:-1] + "_"
        found.append(prefix + (aten[len(stem) :] if aten.startswith(stem) else aten))
    return tuple(found)
