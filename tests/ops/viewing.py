"""Compare views in metatensor and PyTorch: sizes, strides, offset, shared storage, and values."""

import warnings

import numpy as np

import metatensor as mt


def base(module, layout, device="cpu"):
    """Return a tensor with layout (sizes, strides) over a storage that holds 0, 1, 2, ..."""
    shape, strides = layout
    need = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else 0
    flat = module.arange(need + 1, dtype=module.float32, device=device)
    return flat.as_strided(shape, strides, 1)


def shown(result, source):
    """Return (sizes, strides, offset, whether it shares the source's storage) of a tensor, or a list of these for several."""
    if isinstance(result, (tuple, list)):
        return [shown(item, source) for item in result]
    shares = result.untyped_storage()._cdata == source.untyped_storage()._cdata
    # The offset is irrelevant if the tensor has its own memory.
    return tuple(result.shape), tuple(result.stride()), result.storage_offset() if shares else 0, shares


def attempt(call, module, layout, device="cpu"):
    """Return the description and values of ``call(module, tensor)``, or the exception."""
    tensor = base(module, layout, device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(module, tensor)
        return shown(result, tensor), flat(result) if device == "cpu" else None, None
    except Exception as error:
        return None, None, error


def flat(result):
    if isinstance(result, (tuple, list)):
        return [v for item in result for v in flat(item)]
    return np.asarray(result.tolist()).reshape(-1).tolist()


def agree(call, layout):
    """Check that ``call(module, tensor)`` matches PyTorch on meta and on cpu: the same view, or the same class of exception."""
    import torch

    expected, values, refused = attempt(call, torch, layout)
    for device in ("meta", "cpu"):
        got, found, error = attempt(call, mt, layout, device)
        if refused is not None:
            assert error is not None, f"{layout} on {device}: gave {got}, PyTorch raises {refused!r}"
            _, _, on_meta = attempt(call, torch, layout, "meta")
            classes = tuple(type(e) for e in (refused, on_meta) if e is not None)
            assert isinstance(error, classes), f"{layout} on {device}: raised {error!r}, PyTorch {refused!r}"
            continue
        if error is not None:
            raise AssertionError(f"{layout} on {device}: PyTorch gives {expected}") from error
        assert got == expected, f"{layout} on {device}"
        if device == "cpu":
            assert found == values, layout
