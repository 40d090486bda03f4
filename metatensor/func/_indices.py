"""Batching rules for indexing and scattering, for operators along a dimension, reductions, and matrices."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.func._batched import Batched, Level, NoBatch, wrap
from metatensor.func._rules import each, expanded, is_batch, named, written

__all__ = ["along", "reduced"]


def _only_first(level: Level, given: dict[str, Any]) -> bool:
    """Return whether the first argument is the only batched one."""
    first, *rest = given.values()
    return is_batch(first, level) and not any(is_batch(x, level) for x in rest)


def _axis(dim: int, ndim: int) -> int:
    """Return the dimension of `value` that corresponds to dimension `dim` of a member of at least one dimension."""
    if not -ndim <= dim < ndim:
        raise IndexError(f"vmap: a member of {ndim} dimensions has no dimension {dim}")
    return dim % ndim + 1


def _axes(dims: Any, ndim: int) -> Any:
    return _axis(dims, ndim) if isinstance(dims, int) else tuple(_axis(d, ndim) for d in dims)


# Along a dimension --------------------------------------------------------------------------------------------------------


@named("""
    flip roll softmax log_softmax cumsum cumprod logcumsumexp cummax cummin sort argsort topk nn.functional.glu kthvalue mode
    nn.functional.softmax nn.functional.log_softmax nn.functional.softmin msort linalg.cross cross index_select _repeat_interleave
    diag_embed _fft_c2c _fft_c2r _fft_r2c _softmax_backward_data _log_softmax_backward_data linalg.vecdot _safe_softmax
""")  # fmt: skip
def along(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Apply an operator along dimensions of the members."""
    names = list(given)
    tensors = {name: x for name, x in given.items() if isinstance(x, Tensor)}
    x = given[names[0]]
    options = dict(given)
    if func.name in ("index_select",) and is_batch(given["index"], level):
        index = given["index"].reshape(-1)
        if not x.dim():
            return x.reshape(1)[index].reshape(())
        return x.movedim(given["dim"], 0)[index].movedim(0, given["dim"])
    if func.name == "roll" and given["dims"] in (None, ()):
        return wrap(x.value.flatten(1).roll(given["shifts"], 1).reshape(x.value.shape), level) if x.dim() else x.clone()
    ndim = max(t.dim() for name, t in tensors.items() if name != "index")
    flat = ndim == 0
    ndim = max(ndim, 1)
    for name, t in tensors.items():
        if func.name == "index_select" and name == "index":
            continue
        whole = expanded(t, level)
        options[name] = whole.reshape(whole.shape[0], *(1,) * (ndim - t.dim()), *t.shape)
    if func.name == "msort":
        return each(options["input"].sort(1).values, level, _flat if flat else None)
    if func.name == "diag_embed":
        n = x.dim() + 1
        options["dim1"], options["dim2"] = _axis(given["dim1"], n), _axis(given["dim2"], n)
        return each(func(**options), level)
    name = "dims" if "dims" in given else "dim"
    dim = given[name]
    if func.name == "cross" and dim is None:
        dim = next(d for d in range(ndim) if all(t.shape[d] == 3 for t in tensors.values() if t.dim() == ndim))
    if dim is None:  # of nn.functional.softmax
        dim = 0 if ndim in (0, 1, 3) else 1
    options[name] = _axes(dim, ndim)
    return each(func(**options), level, _flat if flat else None)


def _flat(y: Any) -> Any:
    """Return the results of 0-d members, which have been computed from vectors of one element."""
    return y.reshape(y.shape[0]) if y.numel() == y.shape[0] else y


@named("renorm")
def _renormed(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Renormalize the slices of all members as rows."""
    x = given["input"]
    rows = x.value.movedim(_axis(given["dim"], x.dim()), 1)
    made = func(rows.flatten(0, 1), given["p"], 0, given["maxnorm"])
    return wrap(made.reshape(rows.shape).movedim(1, _axis(given["dim"], x.dim())), level)


# Reductions ---------------------------------------------------------------------------------------------------------------


@named("""
    sum mean prod amax amin all any logsumexp var std var_mean std_mean nansum nanmean count_nonzero argmax argmin max min median
    nanmedian aminmax hash_tensor linalg.vector_norm linalg.matrix_norm quantile nanquantile
""")
def reduced(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Reduce some or all dimensions of each member."""
    if not _only_first(level, given) or "other" in given:
        return NotImplemented
    x = given["input"]
    value, ndim = x.value, x.dim()
    options = dict(given)
    keepdim = given.get("keepdim", False)
    dim = given.get("dim")
    if func.name in ("quantile", "nanquantile") and isinstance(given["q"], Tensor) and given["q"].dim():
        back = _second_first
    else:
        back = None
    if dim is None or dim == ():
        if func.name == "linalg.matrix_norm" or (func.name == "logsumexp" and dim is None):
            return NotImplemented
        options["input"] = value.reshape(value.shape[0], -1)
        options["dim"] = 1
        options.pop("keepdim", None)
        made = func(**options)
        if isinstance(made, tuple) and func.name in ("max", "min", "median", "nanmedian"):
            made = made[0]  # without dim there are no indices
        shape = (value.shape[0], *(1,) * ndim)
        if keepdim and back is None:
            return each(made, level, lambda y: y.reshape(shape))
        if keepdim:
            return NotImplemented
        return each(made, level, back)
    if not ndim:
        options["input"], options["dim"] = value.unsqueeze(1), 1 if isinstance(dim, int) else (1,)
        options.pop("keepdim", None)
        return each(func(**options), level, back)
    options["input"], options["dim"] = value, _axes(dim, ndim)
    return each(func(**options), level, back)


def _second_first(y: Any) -> Any:
    return y.movedim(0, 1)


@named("trace")
def _trace(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return given["input"].diagonal().sum()


# Indexing and scattering --------------------------------------------------------------------------------------------------


@named("gather scatter scatter_add scatter_reduce")
def _scattered(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Gather or scatter along a dimension of each member."""
    if given["index"].dim() == 0 or given["input"].dim() == 0:
        options = {name: expanded(x, level).reshape(level.size, -1) if isinstance(x, Tensor) else x for name, x in given.items()}
        shape = given["index" if func.name == "gather" else "input"].shape
        return each(func(**{**options, "dim": 1}), level, lambda y: y.reshape(level.size, *shape))
    options = {name: expanded(x, level) if isinstance(x, Tensor) else x for name, x in given.items()}
    return each(func(**{**options, "dim": _axis(given["dim"], given["input"].dim())}), level)


@named("index_add index_copy index_fill index_reduce")
def _at_positions(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Write to positions along a dimension of each member."""
    x, index, size = given["input"], given["index"], level.size
    source = given.get("source")
    if is_batch(given.get("value"), level) and x.dim() and index.dim():
        chosen = mt.zeros(x.shape[given["dim"]], dtype=mt.bool, device=x.device).index_fill(0, index, True)
        chosen = chosen.reshape(-1, *(1,) * (x.dim() - 1 - given["dim"] % x.dim()))
        return mt.where(chosen, given["value"].to(x.dtype), x)
    if not size:
        return NotImplemented
    if not x.dim() or not index.dim():
        given = {**given, "input": x.reshape(1) if not x.dim() else x, "index": index.reshape(-1)}
        if source is not None:
            given["source"] = source.reshape(1) if not x.dim() else source.unsqueeze(given["dim"]) if source.dim() < x.dim() else source
        return func(**given).reshape(x.shape)
    dim = _axis(given["dim"], x.dim())
    whole = expanded(x, level)
    options = dict(given)
    if not is_batch(index, level):
        options |= {"input": whole, "dim": dim} | ({} if source is None else {"source": expanded(source, level)})
        return each(func(**options), level)
    n = x.shape[dim - 1]
    rows = whole.movedim(dim, 1).flatten(0, 1)
    shift = mt.arange(size, device=x.device, dtype=index.dtype).reshape(size, 1) * n
    options |= {"input": rows, "dim": 0, "index": (index.value % n + shift).flatten()}
    if source is not None:
        options["source"] = expanded(source, level).movedim(dim, 1).flatten(0, 1)
    return wrap(func(**options).unflatten(0, (size, n)).movedim(1, dim), level)


@named("_clone_strided")
def _cloned(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return given["input"].clone()


@named("select_scatter slice_scatter diagonal_scatter")
def _scattered_view(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Copy the input and write to a view of the copy."""
    made = written(given["input"], level)
    where = {name: value for name, value in given.items() if name not in ("input", "src")}
    if func.name == "slice_scatter":
        n = made.shape[where["dim"]]
        start, end, _ = slice(where["start"], where["end"], where["step"]).indices(n)
        made.narrow(where["dim"], start, max(end - start, 0)).movedim(where["dim"], 0)[:: where["step"]].copy_(
            given["src"].movedim(where["dim"], 0))  # fmt: skip
        return made
    (made.select(**where) if func.name == "select_scatter" else made.diagonal(**where)).copy_(given["src"])
    return made


@named("_block_diag")
def _block_diag(func: Any, level: Level, given: dict[str, Any]) -> Any:
    blocks = [b if b.dim() == 2 else b.reshape(1, -1) for b in given["tensors"]]
    if any(b.dim() != 2 for b in given["tensors"] if b.dim() > 1):
        return NotImplemented
    widths = [b.shape[1] for b in blocks]
    rows = [mt.nn.functional.pad(b, (sum(widths[:k]), sum(widths[k + 1 :]))) for k, b in enumerate(blocks)]
    return mt.cat(rows)


@named("take")
def _taken(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, index = given["input"], given["index"]
    flat = x.reshape(-1)
    n = flat.shape[0]
    return flat.gather(0, (index % n if n else index).reshape(-1)).reshape(index.shape)


@named("put")
def _put(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, index, source, size = (*(given[name] for name in ("input", "index", "source")), level.size)
    if not size:
        return NotImplemented
    if not index.numel():
        return written(x, level)
    whole = expanded(x, level).contiguous()
    shift = mt.arange(size, device=x.device, dtype=index.dtype).reshape(size, *(1,) * index.dim()) * x.numel()
    positions = expanded(index, level) % x.numel() + shift
    return wrap(func(whole, positions, expanded(source, level).contiguous(), given["accumulate"]), level)


@named("masked_scatter")
def _masked_scatter(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, mask, source = given["input"], given["mask"], given["source"]
    shape = mt.broadcast_shapes(x.shape, mask.shape)
    order = mask.expand(shape).reshape(-1).cumsum(0).reshape(shape) - 1
    most: Any = order.max() if order.numel() else None
    most = most.value if is_batch(most, level) else most
    if most is not None and most.device.type != "meta" and not isinstance(most, Batched) and bool((most >= source.numel()).any()):
        raise NoBatch(f"vmap: masked_scatter needs {int(most.max()) + 1} elements, but the source has {source.numel()}")
    if not source.numel():
        source = mt.cat([source.reshape(-1), source.new_zeros(1)])
    return mt.where(mask, mt.take(source, order.clamp(0, max(source.numel() - 1, 0))), x)


@named("searchsorted")
def _searchsorted(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, values = given["sorted_sequence"], given["input"]
    if not isinstance(values, Tensor):
        values = mt.full((), values, dtype=x.dtype, device=x.device)
    flat = values.dim() == 0
    options = {**given, "sorted_sequence": expanded(x, level).contiguous(), "input": expanded(values, level).contiguous()}
    if given["sorter"] is not None:
        options["sorter"] = expanded(given["sorter"], level)
    if x.dim() == 1:  # all values are looked up in one sequence
        options["input"] = options["input"].reshape(level.size, -1)
        made = func(**options)
        return wrap(made.reshape(level.size, *(() if flat else values.shape)), level)
    return each(func(**options), level)


@named("bucketize")
def _bucketize(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, boundaries = given["input"], given["boundaries"]
    if not is_batch(boundaries, level):
        return wrap(func(**{**given, "input": x.value}), level)
    x = x if isinstance(x, Tensor) else mt.full((), x, dtype=boundaries.dtype, device=boundaries.device)
    return mt.searchsorted(boundaries, x, out_int32=given["out_int32"], right=given["right"])


@named("nn.functional.embedding embedding")
def _embedding(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Look up rows of a table that the members share, or of a table for each."""
    name = "indices" if "indices" in given else "input"
    index, weight = given[name], given["weight"]
    if given.get("max_norm") is not None:  # it also changes the table
        if not is_batch(weight, level):
            raise NoBatch("vmap: embedding with max_norm would scale different rows of a table that the members share; map over "
                          "the table, too")
        mt.embedding_renorm_(weight.detach(), index, given["max_norm"], given["norm_type"])
    frequencies, padding, n = given["scale_grad_by_freq"], given["padding_idx"], weight.shape[0]
    if not is_batch(weight, level) and not frequencies:
        return wrap(func(**{**given, name: index.value, "max_norm": None} if name == "input" else {**given, name: index.value}), level)
    if not level.size:
        return NotImplemented
    shift = mt.arange(level.size, device=index.device).reshape(level.size, *(1,) * index.dim()) * n
    table, at = expanded(weight, level).flatten(0, 1), expanded(index, level) + shift
    made = wrap(mt.nn.functional.embedding(at, table, scale_grad_by_freq=frequencies), level)
    if padding is None or name == "indices" and padding < 0:
        return made
    from metatensor.func._recorded import without_history

    return mt.where((index == padding % n).unsqueeze(-1), without_history(made), made)  # the row of the padding has no gradient


@named("embedding_dense_backward")
def _embedding_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Sum the gradients of each row of each member's table."""
    grad, index, n, size = given["grad_output"], given["indices"], given["num_weights"], level.size
    if not size:
        return NotImplemented
    rows = expanded(grad, level).reshape(size, -1, grad.shape[-1])
    at = expanded(index, level).reshape(size, -1, 1)
    if given["padding_idx"] >= 0:
        rows = rows.masked_fill(at == given["padding_idx"], 0)
    if given["scale_grad_by_freq"]:
        counts = rows.new_zeros((size, n, 1)).scatter_add(1, at, mt.ones_like(at, dtype=rows.dtype))
        rows = rows / counts.gather(1, at)
    return wrap(rows.new_zeros((size, n, grad.shape[-1])).scatter_add(1, at.expand(rows.shape), rows), level)


# Matrices -------------------------------------------------------------------------------------------------------------------

# The number of dimensions of an argument that is not a matrix.
_VECTORS = {"tau": 1, "pivots": 1, "LU_pivots": 1, "rtol": 0, "atol": 0, "rcond": 0}


@named("""
    cholesky cholesky_inverse cholesky_solve linalg.cholesky_ex linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
    linalg.householder_product linalg.inv_ex linalg.ldl_factor_ex linalg.ldl_solve linalg.lu linalg.lu_factor_ex linalg.lu_solve
    linalg.matrix_exp linalg.pinv linalg.qr linalg.slogdet linalg.solve_triangular linalg.svd linalg.svdvals logdet slogdet det
    lu_unpack orgqr triangular_solve ormqr geqrf
""")
def _matrices(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Apply an operator whose leading dimensions are a batch."""
    tensors = {name: x for name, x in given.items() if isinstance(x, Tensor)}
    vectors = {**_VECTORS, "input2": 1} if func.name in ("ormqr", "orgqr") else _VECTORS
    leading = {name: x.dim() - vectors.get(name, 2) for name, x in tensors.items()}
    if any(n < 0 for n in leading.values()):
        return NotImplemented
    most = max(leading.values())
    options = dict(given)
    for name, x in tensors.items():
        if name in ("rtol", "atol", "rcond") and not is_batch(x, level):
            continue
        whole = expanded(x, level)
        options[name] = whole.reshape(whole.shape[0], *(1,) * (most - leading[name]), *x.shape)
    same = func.name in ("linalg.lu_solve", "linalg.ldl_solve", "lu_unpack", "linalg.solve_triangular", "ormqr")
    if same and len(set(leading.values())) > 1:
        shape = mt.broadcast_shapes(*(options[name].shape[: most + 1] for name in tensors))
        options |= {name: options[name].expand(*shape, *options[name].shape[most + 1 :]) for name in tensors}
    return each(func(**options), level)


@named("_linalg_lstsq linalg.lstsq")
def _least_squares(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Solve for all members. A result that the driver does not compute is an empty vector for each member."""
    a, b = given["input"], given["b"]
    if a.dim() < 2 or not b.dim():
        return NotImplemented
    vectors = b.dim() == a.dim() - 1 and b.shape == a.shape[:-1]
    left, right = expanded(a, level), expanded(b, level)
    right = right.unsqueeze(-1) if vectors else right
    if right.dim() < left.dim():
        right = right.reshape(level.size, *(1,) * (left.dim() - right.dim()), *right.shape[1:])
    found = func(**{**given, "input": left, "b": right})
    kind: Any = type(found)
    solution, *others = found
    others = [y.expand(level.size, *y.shape) if tuple(y.shape) == (0,) else y for y in others]
    members = each((solution.squeeze(-1) if vectors else solution, *others), level)
    return members if kind is tuple else kind(members)


@named("linalg.solve_ex")
def _solved(func: Any, level: Level, given: dict[str, Any]) -> Any:
    a, b = given["A"], given["B"]
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    left, right = expanded(a, level), expanded(b, level)
    right = right.unsqueeze(-1) if vector else right
    most = max(left.dim(), right.dim())
    left, right = (x.reshape(level.size, *(1,) * (most - x.dim()), *x.shape[1:]) for x in (left, right))
    solution, info = func(**{**given, "A": left, "B": right})
    if vector:
        solution = solution.squeeze(-1)
    return each((solution, info), level)


@named("linalg.vander")
def _vander(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return wrap(func(**{**given, "x": given["x"].value}), level) if given["x"].dim() else NotImplemented


@named("outer")
def _outer(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return given["input"].unsqueeze(-1) * given["vec2"].unsqueeze(-2)


@named("addmm addmv addbmm baddbmm addr")
def _added_product(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Add a product of the members' matrices."""
    x, a, b = list(given.values())[:3]
    beta, alpha = given["beta"], given["alpha"]
    if given.get("out_dtype") is not None:
        a, b = a.to(given["out_dtype"]), b.to(given["out_dtype"])
    if func.name == "addr":
        dtype = mt.promote_types(mt.promote_types(x.dtype, a.dtype), b.dtype)
        x, a, b = x.to(dtype), a.to(dtype), b.to(dtype)
        if dtype is mt.bool:
            product = mt.outer(a, b) & bool(alpha)
            return product | x if beta else product | mt.zeros_like(x)
    if not (a.is_floating_point() or a.is_complex()):
        beta, alpha = int(beta), int(alpha)
    if func.name == "addbmm":  # the sum of products is one product of matrices placed side by side
        a, b = a.movedim(0, 1).flatten(1), b.flatten(0, 1)
    product = mt.outer(a, b) if func.name == "addr" else mt.matmul(a, b)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product.expand(mt.broadcast_shapes(product.shape, x.shape))
    return product + (x if beta == 1 else x * beta)


@named("vdot")
def _vdot(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return mt.dot(given["input"].conj(), given["other"])


@named("expand_as")
def _expanded_as(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return given["input"].expand(given["other"].shape)


@named("repeat")
def _repeated(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, repeats = given["input"], given["repeats"]
    value = x.value.reshape(level.size, *(1,) * (len(repeats) - x.dim()), *x.shape)
    return wrap(value.repeat(1, *repeats), level)


@named("constant_pad_nd nn.functional.pad")
def _padded(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Pad the last dimensions of each member."""
    x, n = given["input"], len(given["pad"]) // 2
    if given.get("mode", "constant") == "constant":
        return wrap(func(**{**given, "input": x.value}), level)
    images = x.value if x.dim() <= n + 1 else x.value.flatten(0, x.dim() - n - 1)
    if images.dim() > n + 2 or not level.size:
        return NotImplemented
    made = func(**{**given, "input": images})
    return wrap(made.reshape(level.size, *x.shape[: x.dim() - n], *made.shape[made.dim() - n :]), level)


@named("_overlap_add")
def _overlap_added(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return wrap(func(given["input"].value.flatten(0, 1), given["step"]).unflatten(0, (level.size, -1)), level)


@named("frexp")
def _halves(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return each(func(given["input"].value), level)


@named("polygamma")
def _polygamma(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return wrap(func(**{name: x.value if is_batch(x, level) else x for name, x in given.items()}), level)


@named("combinations")
def _combinations(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x = given["input"]
    positions = func(mt.arange(x.shape[0], device=x.device), given["r"], given["with_replacement"])
    return x[positions]


@named("prelu")
def _prelu(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, weight = given["input"], given["weight"]
    if weight.numel() != 1:
        weight = weight.reshape(-1, *(1,) * (x.dim() - 2)) if x.dim() > 1 else weight
    else:
        weight = weight.reshape(())
    return mt.where(x > 0, x, weight * x)


@named("view_as_complex view_as_real _conj _neg_view _real _imag")
def _viewed(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """View elements as others."""
    return wrap(func(given["input"].value), level)


@named("_without_backward")
def _without_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Note that a gradient is missing, for all members at once."""
    inputs = [x.value if is_batch(x, level) else x for x in given["inputs"]]
    return wrap(func(expanded(given["input"], level), inputs, given["function"]), level)


@named("adjoint mH H")
def _adjoint(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x = given["input"]
    return x.transpose(-2, -1).conj() if x.dim() > 1 else x.conj()
