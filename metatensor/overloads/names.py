"""Mapping between the names of metatensor's operators and those of PyTorch's dispatcher."""

from __future__ import annotations

__all__ = ["EXTRA", "ONLY_TENSOR", "aten_names", "registry_names"]

# Operators of the dispatcher to which calls of operators with other names are translated.
EXTRA = frozenset((
    "_local_scalar_dense", "_log_softmax", "_softmax", "addmm", "convolution", "index", "index_put", "index_put_", "mm",
    "native_layer_norm", "t", "unbind", "view",
))  # fmt: skip

# For these operators, a call with a number selects the Tensor overload, not the Scalar overload.
ONLY_TENSOR = frozenset(("add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "floor_divide", "floor_divide_"))

_OTHERS = {
    "_index": "index", "_index_put_": "index_put_", "_real": "real", "_imag": "imag", "item": "_local_scalar_dense",
    "nn.functional.logsigmoid": "log_sigmoid",
}  # fmt: skip
_BACK = {"_softmax": "softmax", "_log_softmax": "log_softmax", **{aten: name for name, aten in _OTHERS.items()}}
_PREFIXES = ("nn.functional.", "linalg.", "fft.", "special.")


def aten_names(name: str) -> tuple[str, ...]:
    """Return the candidate names in PyTorch's dispatcher for an operator of metatensor, most likely first."""
    if name in _OTHERS:
        return (_OTHERS[name],)
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            return (rest,) if prefix == "nn.functional." else (f"{prefix[:-1]}_{rest}",)
    return (name,)


def registry_names(aten: str) -> tuple[str, ...]:
    """Return the candidate names in metatensor's registry for a name in PyTorch's dispatcher, most likely first."""
    found = [_BACK[aten]] if aten in _BACK else []
    found.append(aten)
    for prefix in _PREFIXES:
        stem = prefix[:-1] + "_"
        found.append(prefix + (aten[len(stem) :] if aten.startswith(stem) else aten))
    return tuple(found)
