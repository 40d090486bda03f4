"""Fusion of layers: a batch norm is merged into the layer before it, and an activation is appended to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from metatensor import nn
from metatensor.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

_CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_KNOWN: tuple[tuple[Any, ...], ...] = (
    (_CONV, _NORM), (_CONV, _NORM, nn.ReLU), (_CONV, nn.ReLU), (nn.Linear, nn.ReLU), (nn.Linear, nn.BatchNorm1d), (_NORM, nn.ReLU),
    (_TRANSPOSED, _NORM),
)  # fmt: skip


def fuse_known_modules(mod_list: Sequence[Any], is_qat: bool, additional_fuser_method_mapping: Any = None) -> list[Any]:
    """Fuse a list of layers into one layer with the same results.

    Parameters
    ----------
    mod_list : sequence of Module
        Layers that are applied one after the other, such as a convolution, a batch norm and a ReLU.
    is_qat : bool
        If False, batch norms are merged into the weights of the preceding layer. If True, the layers are kept in a
        Sequential.
    additional_fuser_method_mapping : any
        Ignored.

    Returns
    -------
    list of Module
        The fused layer, and an Identity in place of each of the others.

    Raises
    ------
    NotImplementedError
        If this sequence of layers cannot be fused.
    """
    if not any(len(kinds) == len(mod_list) and all(map(isinstance, mod_list, kinds)) for kinds in _KNOWN):
        names = ", ".join(type(one).__name__ for one in mod_list)
        raise NotImplementedError(f"fuse_modules: cannot fuse {names}")
    first, *others = mod_list
    if is_qat:
        parts = list(mod_list)
    else:
        parts = [first]
        for one in others:
            if isinstance(one, _NORM) and isinstance(first, nn.Linear):
                parts[0] = fuse_linear_bn_eval(parts[0], one)
            elif isinstance(one, _NORM):
                parts[0] = fuse_conv_bn_eval(parts[0], one, isinstance(first, _TRANSPOSED))
            else:
                parts.append(one)
    fused = parts[0] if len(parts) == 1 else nn.Sequential(*parts)
    fused.train(first.training)
    result = [fused]
    for _ in others:
        stand_in = nn.Identity()
        stand_in.training = first.training
        result.append(stand_in)
    return result


def _fuse(model: Any, groups: Any, is_qat: bool, inplace: bool, fuser_func: Callable[..., list[Any]], custom: Any) -> Any:
    if not inplace:
        model = copy.deepcopy(model)
    if all(isinstance(name, str) for name in groups):
        groups = [groups]
    mapping = (custom or {}).get("additional_fuser_method_mapping", {})
    for names in groups:
        modules = [model.get_submodule(name) for name in names]
        for name, module in zip(names, fuser_func(modules, is_qat, mapping)):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, module)
    return model


def fuse_modules(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Callable[..., list[Any]] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """Fuse layers of a model in evaluation mode.

    Parameters
    ----------
    model : Module
    modules_to_fuse : list of str, or list of lists of str
        Dotted names of the layers of each group.
    inplace : bool
        If False, a copy of the model is changed. Default: False.
    fuser_func : callable
        See `fuse_known_modules`.
    fuse_custom_config_dict : dict, optional
        The entry "additional_fuser_method_mapping" is passed to `fuser_func`.

    Returns
    -------
    Module
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any, modules_to_fuse: Any, inplace: bool = False, fuser_func: Callable[..., list[Any]] = fuse_known_modules,
    fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """Group layers of a model for training: each group becomes a Sequential. For the arguments see `fuse_modules`."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
