"""Formatting of tensors: the values, or the metadata if there is no data."""

import math

_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """Set how tensors are printed. An argument that is None leaves its setting unchanged, except `sci_mode`.

    Parameters
    ----------
    precision : int, optional
        Digits after the decimal point. Initially 4.
    threshold : int, optional
        Tensors with more elements are abridged. Initially 1000.
    edgeitems : int, optional
        Items shown at each end of an abridged dimension. Initially 3.
    linewidth : int, optional
        Characters per line. Initially 80.
    profile : str, optional
        "default", "short" or "full" sets precision, threshold and edgeitems. Other names have no effect.
    sci_mode : bool, optional
        Whether to use scientific notation. If None (the default), it depends on the values.
    """
    if profile is not None:
        known = {"default": (4, 1000, 3), "short": (2, 1000, 2), "full": (4, math.inf, 3)}
        if profile in known:    # other names have no effect, as in PyTorch
            _options["precision"], _options["threshold"], _options["edgeitems"] = known[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems),
                        ("linewidth", linewidth)):
        if value is not None:
            _options[name] = value
    _options["sci_mode"] = sci_mode


def _number_format(values):
    """Return a function that formats one float, in a format that suits all `values`."""
    digits = _options["precision"]
    finite = [abs(v) for v in values if math.isfinite(v) and v != 0]
    whole = all(v == int(v) for v in values if math.isfinite(v))
    sci = _options["sci_mode"]
    if sci is None and finite:
        low, high = min(finite), max(finite)
        sci = high / low > 1000 or high > 1e8 or (low < 1e-4 and not whole)
    if sci:
        return lambda v: f"{v:.{digits}e}"
    if whole:
        return lambda v: f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"
    return lambda v: f"{v:.{digits}f}"


def _flat(nested):
    if isinstance(nested, list):
        return [x for part in nested for x in _flat(part)]
    return [nested]


def _formatter(tensor, shown):
    """Return a function that formats one element, padded to a common width."""
    values = _flat(shown)
    if tensor.dtype.is_complex:
        real = _number_format([v.real for v in values])
        imag = _number_format([v.imag for v in values])

        def one(v):
            return real(v.real) + ("" if math.copysign(1, v.imag) < 0 else "+") + imag(v.imag) + "j"

    elif tensor.dtype.is_floating_point:
        one = _number_format(values)
    else:
        one = str
    width = max((len(one(v)) for v in values), default=0)
    return lambda v: one(v).rjust(width)


def _abridged(tensor):
    """Return nested lists of the elements to show, with `...` in place of those left out."""
    if tensor.dim() == 0:
        return tensor.item()
    edge, n = _options["edgeitems"], len(tensor)
    if n <= 2 * edge:
        return [_abridged(tensor[i]) for i in range(n)]
    head = [_abridged(tensor[i]) for i in range(edge)]
    return [*head, ..., *(_abridged(tensor[i]) for i in range(n - edge, n))]


def _layout(nested, one, indent):
    if nested is ...:
        return "..."
    if not isinstance(nested, list):
        return one(nested)
    if not nested:
        return "[]"
    if isinstance(nested[0], list):
        gap = ",\n" + "\n" * (_depth(nested) - 2) + " " * (indent + 1)
        return "[" + gap.join(_layout(x, one, indent + 1) for x in nested) + "]"
    cells = ["..." if x is ... else one(x) for x in nested]
    width = max(len(c) for c in cells) + 2
    per_line = max(1, (_options["linewidth"] - indent) // width)
    lines = [", ".join(cells[i:i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _depth(nested):
    depth = 0
    while isinstance(nested, list) and nested:
        depth += 1
        nested = nested[0]
    return depth


def tensor_str(tensor):
    """Return the repr of a tensor. Without data it is ``tensor(..., device='meta', size=(2, 3))``.

    Modes and overrides are disabled while the text is created.
    """
    from metatensor._core.modes import _disable_modes, _restore_modes
    from metatensor._core.thread import DisableTorchFunctionSubclass

    level = _disable_modes()
    try:
        with DisableTorchFunctionSubclass():
            return _tensor_str(tensor)
    finally:
        _restore_modes(level)


def _tensor_str(tensor):
    from metatensor import get_default_dtype, is_deferred
    from metatensor._core import dtype as dtypes

    storage = tensor.untyped_storage()
    notes = []
    if storage.data is None:
        body = "..."
        notes.append(f"device='{tensor.device}'")
        notes.append(f"size={tuple(tensor.shape)}")
        if not tensor.is_meta:
            notes.append("deferred=True" if is_deferred(tensor) else "fake=True")
    else:
        plain = tensor.detach()
        if tensor.numel() == 0:
            body = "[]"
            if tensor.dim() != 1:
                notes.append(f"size={tuple(tensor.shape)}")
        else:
            nested = _abridged(plain) if tensor.numel() > _options["threshold"] else plain.tolist()
            shown = [v for v in _flat(nested) if v is not ...]
            body = _layout(nested, _formatter(tensor, shown), len("tensor("))
        if tensor.device.type != "cpu":
            notes.append(f"device='{tensor.device}'")
    wide = get_default_dtype() is dtypes.dtype_by_name("float64")
    usual = {get_default_dtype(), *map(dtypes.dtype_by_name, ("int64", "bool", "complex128" if wide else "complex64"))}
    if tensor.dtype not in usual or (tensor.numel() == 0 and storage.data is not None
                                     and tensor.dtype is not get_default_dtype()):
        notes.append(f"dtype={tensor.dtype}")
    elif storage.data is None and tensor.dtype is not get_default_dtype():
        notes.append(f"dtype={tensor.dtype}")
    if tensor.requires_grad:
        notes.append("requires_grad=True" if tensor.is_leaf else f"grad_fn={tensor.grad_fn!r}")
    return f"tensor({', '.join([body, *notes])})"
