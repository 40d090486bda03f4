"""Compare what was loaded with what another library loads from the same file: values, layouts and shared storages."""

import numpy as np
import torch

import metatensor as mt
from metatensor._core.storage import storage_bytes


def same(ours, theirs, data=True):
    """Check that two tensors have the same layout, dtype, class and, with ``data``, the same bits."""
    assert tuple(ours.shape) == tuple(theirs.shape) and tuple(ours.stride()) == tuple(theirs.stride())
    assert ours.storage_offset() == theirs.storage_offset() and str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert ours.requires_grad == theirs.requires_grad and ours.is_conj() == theirs.is_conj() and ours.is_neg() == theirs.is_neg()
    assert isinstance(ours, mt.nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
    assert ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()
    if data:
        whole = torch.empty(0, dtype=torch.uint8).set_(theirs.untyped_storage())
        assert storage_bytes(ours.untyped_storage()) == whole.numpy().tobytes()
    else:
        assert ours.is_meta


def compare(ours, theirs, data=True, shared=None):
    """Check that two values are equal, including which tensors share storage."""
    shared = {} if shared is None else shared
    if isinstance(theirs, torch.Tensor):
        same(ours, theirs, data)
        pair = ours.untyped_storage()._cdata, theirs.untyped_storage()._cdata
        assert shared.setdefault(("ours", pair[0]), pair) == shared.setdefault(("theirs", pair[1]), pair) == pair
        shared[pair, "kept"] = ours, theirs
    elif isinstance(theirs, dict):
        assert type(ours) is type(theirs) and list(ours) == list(theirs)
        for key in theirs:
            compare(ours[key], theirs[key], data, shared)
        assert getattr(ours, "__dict__", {}) == getattr(theirs, "__dict__", {})
    elif isinstance(theirs, torch.Size):
        assert type(ours) is mt.Size and tuple(ours) == tuple(theirs)
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            compare(mine, other, data, shared)
    elif isinstance(theirs, (torch.dtype, torch.device)):
        assert str(ours).split(".")[-1] == str(theirs).split(".")[-1]
    elif isinstance(theirs, np.ndarray):
        assert type(ours) is np.ndarray and ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
        assert ours.shape == theirs.shape
    else:
        assert type(ours) is type(theirs) and ours == theirs
