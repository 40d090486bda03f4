"""Variants of view ops whose results have their own memory.

`*_copy` returns a contiguous copy of a view. `*_scatter` returns a copy of the input in which the elements that a view
selects are replaced by the elements of `src`.
"""
import warnings

from cpython.object cimport PyObject

from metatensor._core.layout cimport add_dims, extent, overlap
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, OUT, Call, Op, Overload, arg, as_declared, call, define, find, op_name, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, hooks, over_storage, shape_str

from metatensor._core import errors
from metatensor._core.formats import contiguous_format
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradients import gradient, ops, same_gradient

_of = Bodies("views")


cdef extern from "Python.h":
    object PyObject_Vectorcall(object callable, PyObject** args, size_t nargsf, PyObject* kwnames)


# Maps the name of each `*_copy` op to its view op.
cdef dict _views = {}


cdef object _apply(Call* c):
    """Return the view that a `*_copy` op copies."""
    cdef str name = op_name(c)
    cdef object view
    if name == "view_copy" and isinstance(arg(c, 1), (tuple, list)):
        name = "reshape_copy"       # view_copy also accepts a shape for which no view is possible
    view = _views.get(name)
    if view is None:
        view = _views[name] = <object>find(name[:len(name) - 5])
    return as_declared(<Op>view, PyObject_Vectorcall(view, c.args, (<Overload>c.overload).npos, NULL))


cdef object _write_out(object view):
    cdef PyObject* args[2]
    cdef Op clone = find("clone")
    args[0] = <PyObject*>view
    args[1] = <PyObject*>contiguous_format
    return hooks.invoke(<PyObject*>clone, args, 2)


cdef object copy_body(Call* c):
    return _write_out(_apply(c))


cdef object copies_body(Call* c):
    """Return a tuple of copies. If out= is given, write them to its tensors and return None, as in PyTorch."""
    cdef str name = op_name(c)
    cdef tuple views = _apply(c)
    cdef object out = arg(c, (<Overload>c.overload).nslots - 1)
    if out is None:
        return tuple([_write_out(view) for view in views])
    if not isinstance(out, (list, tuple)) or len(out) != len(views):
        raise RuntimeError(f"{name}(): out must be a list of {len(views)} tensors")
    for target in out:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): out must be a list of tensors, it holds {type(target).__name__}")
    for target, view in zip(out, views):
        if name != "split_copy" and target.dtype is not view.dtype:
            raise errors.cannot_cast(name, view.dtype, target.dtype)
        if target.shape != view.shape:
            if name != "split_copy" and target.numel():
                warnings.warn(f"{name}(): a tensor given in out= has the shape {list(target.shape)} and is resized to "
                              f"{list(view.shape)}; pass an empty tensor to have it resized", UserWarning, stacklevel=2)
            target.resize_(view.shape)
        target.copy_(view)
    return None


for schema in (
    "alias_copy(Tensor input)", "detach_copy(Tensor input)",
    "as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None)",
    "diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1)",
    "expand_copy(Tensor input, int[] size, *, bool implicit=False)", "permute_copy(Tensor input, int[] dims)",
    "select_copy(Tensor input, int dim, int index)",
    "slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1)",
    "squeeze_copy(Tensor input)", "squeeze_copy.dim(Tensor input, int dim)", "squeeze_copy.dims(Tensor input, int[] dim)",
    "t_copy(Tensor input)", "transpose_copy(Tensor input, int dim0, int dim1)",
    "unfold_copy(Tensor input, int dimension, int size, int step)", "unsqueeze_copy(Tensor input, int dim)",
    "view_copy(Tensor input, int[] size)", "view_copy.dtype(Tensor input, dtype dtype)",
    "view_as_real_copy(Tensor input)", "view_as_complex_copy(Tensor input)",
):
    define(f"{schema} -> Tensor", copy_body, COMPOSITE | OUT | EXACT_OUT | FUNCTION_ONLY,
           f"Like `{schema.partition('_copy')[0]}`, but return a contiguous copy.")
for schema in (
    "split_copy(Tensor input, int split_size, int dim=0", "split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0",
    "unbind_copy(Tensor input, int dim=0",
):
    define(f"{schema}, *, any? out=None) -> Tensor[]", copies_body, COMPOSITE | FUNCTION_ONLY,
           f"Like `{schema.partition('_copy')[0]}`, but return contiguous copies. If `out`, a list or tuple of "
           "tensors, is given, write the copies to these tensors and return None.")
define("narrow_copy(Tensor input, int dim, int start, int length) -> Tensor", copy_body, COMPOSITE | OUT | EXACT_OUT,
       "Like `narrow`, but return a contiguous copy.")
for name, view, node in (
    ("alias_copy", "alias", "Alias"), ("as_strided_copy", "as_strided", "AsStrided"), ("diagonal_copy", "diagonal", "Diagonal"),
    ("expand_copy", "expand", "Expand"), ("permute_copy", "permute", "Permute"), ("select_copy", "select", "Select"),
    ("slice_copy", "slice", "Slice"), ("squeeze_copy", "squeeze", "Squeeze"), ("t_copy", "t", "T"),
    ("transpose_copy", "transpose", "Transpose"), ("unfold_copy", "unfold", "Unfold"), ("unsqueeze_copy", "unsqueeze", "Unsqueeze"),
    ("view_copy", "view", "View"), ("view_as_real_copy", "view_as_real", "ViewAsReal"),
    ("view_as_complex_copy", "view_as_complex", "ViewAsComplex"), ("split_copy", "split.Tensor", "Split"),
    ("split_with_sizes_copy", "split_with_sizes", "SplitWithSizes"), ("unbind_copy", "unbind", "Unbind"),
):
    same_gradient(name, view, f"{node}Backward0_copy")
same_gradient("squeeze_copy.dim", "squeeze.dim", "SqueezeBackward1_copy")
same_gradient("squeeze_copy.dims", "squeeze.dims", "SqueezeBackward2_copy")
same_gradient("narrow_copy", "narrow.int", "NarrowCopyBackward0")


# Copies with a part replaced ---------------------------------------------------------------------------

cdef object scatter_body(Call* c):
    """Return a copy of the input with the same strides, in which `src` replaces the elements that the view selects."""
    cdef str name = op_name(c)
    cdef Tensor t = tensor_arg(c, 0), src = tensor_arg(c, 1), copy, part
    cdef Overload ov = <Overload>c.overload
    cdef int i
    copy = <Tensor>call("_clone_strided", (t,))
    args = [copy] + [arg(c, i) for i in range(2, ov.npos)]
    part = <Tensor>(<object>find(name[:len(name) - 8]))(*args)
    same = part.ndim == src.ndim
    if same:
        for i in range(part.ndim):
            same = same and part.sizes[i] == src.sizes[i]
    if not same:
        raise RuntimeError(f"{name}(): src must have the shape of the part it replaces, {shape_str(part)}, got {shape_str(src)}")
    part.copy_(src)
    return copy


cdef object clone_strided_body(Call* c):
    """Return a copy with the same strides and offset, including gaps. If elements of `t` overlap, return a clone."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef Tensor out
    if overlap(t.ndim, t.sizes, t.strides):
        return call("clone", (t,))
    size = add_dims(t.offset, extent(t.ndim, t.sizes, t.strides))
    out = <Tensor>call("empty", ((size,),), {"dtype": t.dtype, "device": t.storage.device})
    out = over_storage(out.storage, t.dtype, t.ndim, t.sizes, t.strides, t.offset)
    return call("copy_", (out, t))


define("_clone_strided(Tensor input) -> Tensor", clone_strided_body, COMPOSITE | FUNCTION_ONLY)
for schema in (
    "select_scatter(Tensor input, Tensor src, int dim, int index)",
    "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1)",
    "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1)",
    "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None)",
):
    define(f"{schema} -> Tensor", scatter_body, COMPOSITE | OUT | EXACT_OUT,
           f"Return a copy of `input` in which `src` replaces the elements that `{schema.partition('_scatter')[0]}` "
           "selects.")
gradient("select_scatter", input=lambda grad, dim, index: _of.without(grad, "select", dim, index),
         src=lambda grad, dim, index: grad.select(dim, index))
gradient("slice_scatter", input=lambda grad, dim, start, end, step: _of.without(grad, "slice", dim, start, end, step),
         src=lambda grad, dim, start, end, step: ops.slice(grad, dim, start, end, step))
gradient("diagonal_scatter", input=lambda grad, offset, dim1, dim2: _of.without(grad, "diagonal", offset, dim1, dim2),
         src=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2))
gradient("as_strided_scatter",
         input=lambda grad, input_layout, size, stride, storage_offset:
         _of.without_strided(grad, input_layout, size, stride, storage_offset),
         src=lambda grad, input_layout, size, stride, storage_offset: _of.strided_part(grad, input_layout, size, stride, storage_offset))
