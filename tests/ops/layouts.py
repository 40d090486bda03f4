"""Layouts of tensors for property tests, and comparison of a call on them with PyTorch."""

import warnings

from hypothesis import strategies as st

import metatensor as mt


@st.composite
def shapes(draw, min_dims=0, max_dims=4, min_size=0, max_size=4):
    return tuple(draw(st.lists(st.integers(min_size, max_size), min_size=min_dims, max_size=max_dims)))


@st.composite
def layouts(draw, shape=None, **limits):
    """Draw (sizes, strides) of a view: with dimensions in any order, with gaps, or expanded."""
    if shape is None:
        shape = draw(shapes(**limits))
    order = draw(st.permutations(range(len(shape)))) if draw(st.booleans()) else range(len(shape))
    strides = [0] * len(shape)
    step = draw(st.sampled_from([1, 1, 1, 2]))
    for d in reversed(list(order)):
        strides[d] = step
        step *= max(shape[d], 1) * draw(st.sampled_from([1, 1, 1, 2]))
    if shape and draw(st.integers(0, 5)) == 0:
        strides[draw(st.integers(0, len(shape) - 1))] = 0
    return tuple(shape), tuple(strides)


@st.composite
def dims(draw, ndim, wrong=True):
    """Draw a dimension of ``ndim``, sometimes out of range."""
    n = max(ndim, 1)
    return draw(st.integers(-n - 1, n) if wrong and draw(st.integers(0, 9)) == 0 else st.integers(-n, n - 1))


@st.composite
def dim_lists(draw, ndim):
    """Draw None, a dimension or a tuple of dimensions, sometimes with a duplicate."""
    n = max(ndim, 1)
    if draw(st.integers(0, 4)) == 0:
        return None
    if draw(st.booleans()):
        return draw(dims(ndim))
    return tuple(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=3)))


def empty(module, layout, dtype="float32", device="meta"):
    """Return a tensor with a layout. Its values do not matter."""
    shape, strides = layout
    return module.empty_strided(shape, strides, dtype=getattr(module, dtype), device=device)


def described(result):
    """Return (sizes, dtype, strides) of a tensor, or a list of these for several."""
    if isinstance(result, (tuple, list)):
        return [described(item) for item in result]
    if not hasattr(result, "dtype"):
        return result
    dtype = str(result.dtype).rpartition(".")[2]
    return tuple(result.shape), dtype, tuple(result.stride())


def _attempt(call):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return described(call()), None
    except Exception as error:
        return None, error


def conform(function, *arguments):
    """Check that ``function(module, *tensors)`` on meta matches PyTorch.

    ``arguments`` are pairs (layout, dtype name). If PyTorch's meta and cpu devices differ, the result or the class of
    error of either is accepted.
    """
    import torch

    ours, error = _attempt(lambda: function(mt, *[empty(mt, *a) for a in arguments]))
    theirs, refused = _attempt(lambda: function(torch, *[empty(torch, *a) for a in arguments]))
    if error is None and ours == theirs:
        return
    on_cpu, raised = _attempt(lambda: function(torch, *[empty(torch, *a, device="cpu").fill_(1) for a in arguments]))
    if error is None:
        assert refused is None or raised is None, f"{arguments}: gave {ours}, PyTorch raises {refused or raised!r}"
        assert ours in (theirs, on_cpu), f"{arguments}: gave {ours}, PyTorch on meta {theirs}, on cpu {on_cpu}"
        return
    if refused is None and raised is None and any(0 in layout[0] for layout, _ in arguments):
        # PyTorch does not check the dtype of empty tensors. The error that it raises for others is expected here too.
        filled = [(([n or 1 for n in layout[0]], layout[1]), dtype) for layout, dtype in arguments]
        _, raised = _attempt(lambda: function(torch, *[empty(torch, *a, device="cpu") for a in filled]))
    classes = tuple(type(e) for e in (refused, raised) if e is not None)
    assert classes, f"{arguments}: raised {error!r}, PyTorch gives {theirs}"
    assert isinstance(error, classes), f"{arguments}: raised {error!r}, PyTorch on meta {refused!r}, on cpu {raised!r}"
