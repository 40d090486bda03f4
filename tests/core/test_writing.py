"""Writing into existing tensors: all kinds of out=, targets that share memory, views of several tensors."""

import warnings

import pytest

import metatensor as mt

PLACES = ["meta", "cpu"]


@pytest.fixture(params=PLACES)
def place(request):
    if request.param == "cpu":
        pytest.importorskip("metatensor_cpu")
    return request.param


def numbers(*shape, place="cpu", dtype=mt.float32):
    n = 1
    for size in shape:
        n *= size
    return mt.arange(n, device=place).reshape(shape).to(dtype)


# Ranges ---------------------------------------------------------------------------------------------

RANGES = {
    "arange": lambda out: mt.arange(0, 4, out=out),
    "range": lambda out: mt.range(0, 3, out=out),
    "linspace": lambda out: mt.linspace(0, 3, 4, out=out),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_keep_the_shape_of_an_out_with_as_many_elements(name, place):
    whole = mt.zeros(2, 4, device=place) - 1
    part = whole.narrow(1, 1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RANGES[name](part) is part
    assert part.shape == (2, 2) and part.stride() == (4, 1)
    if place == "cpu":
        assert whole.tolist() == [[-1, 0, 1, -1], [-1, 2, 3, -1]]


def test_logspace_into_a_view():
    pytest.importorskip("metatensor_cpu")
    whole = mt.zeros(2, 4)
    mt.logspace(0, 3, 4, out=whole[:, ::2])
    assert whole.tolist() == [[1, 0, 10, 0], [100, 0, 1000, 0]]


def test_ranges_resize_an_out_with_more_elements(place):
    out = mt.zeros(2, 3, device=place)
    with pytest.warns(UserWarning, match=r"arange.*\[2, 3\].*\[4\]"):
        mt.arange(0, 4, out=out)
    assert out.shape == (4,)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call", [
    lambda o: mt.linspace(0, 1, 5, out=o), lambda o: mt.eye(3, out=o), lambda o: mt.zeros(5, out=o), lambda o: mt.full((5,), 2.0, out=o),
    lambda o: mt.randn(5, out=o), lambda o: mt.randperm(5, out=o), lambda o: mt.empty(5, out=o),
])  # fmt: skip
def test_factories_resize_without_a_warning(call, place):
    out = mt.zeros(2, 2, device=place)
    assert call(out).shape in ((5,), (3, 3))


# Shared memory --------------------------------------------------------------------------------------

APART = {
    "index_add_ source": lambda x, i: x.index_add_(0, i, x),
    "index_add_ index": lambda x, i: i.index_add_(0, i, i.clone()),
    "index_copy_": lambda x, i: x.index_copy_(0, i, x),
    "index_reduce_": lambda x, i: x.index_reduce_(0, i, x, "amax"),
    "index_fill_": lambda x, i: i.index_fill_(0, i, 1),
    "scatter_": lambda x, i: x.scatter_(0, i, x),
    "scatter_ index": lambda x, i: i.scatter_(0, i, 1),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i, x),
    "scatter_reduce_": lambda x, i: x.scatter_reduce_(0, i, x, "sum"),
    "put_": lambda x, i: x.put_(i, x),
    "masked_scatter_": lambda x, i: x.masked_scatter_(x > 0, x),
    "index_put_": lambda x, i: x.index_put_((i,), x),
    "cat out": lambda x, i: mt.cat([x[:2], x[2:]], out=x),
    "stack out": lambda x, i: mt.stack([x[:2], x[2:]], out=x.view(2, 2)),
    "gather out": lambda x, i: mt.gather(x, 0, i, out=x),
    "take out": lambda x, i: mt.take(x, i, out=x),
    "index_select out": lambda x, i: mt.index_select(x, 0, i, out=x),
    "outer out": lambda x, i: mt.kron(x[:2], x[:2], out=x),
    "cross out": lambda x, i: mt.linalg.cross(x[:3], x[1:], out=x[:3]),
}


@pytest.mark.parametrize("name", APART)
def test_targets_may_not_share_memory_with_arguments(name, place):
    x, i = numbers(4, place=place), mt.zeros(4, dtype=mt.int64, device=place)
    with pytest.raises(RuntimeError, match="shares memory"):
        APART[name](x, i)


@pytest.mark.parametrize("name", ["maximum", "fmin", "logaddexp", "isneginf"])
def test_elementwise_outs_may_not_overlap_in_part(name, place):
    x = numbers(5, place=place)
    arguments = (x[:4],) if name == "isneginf" else (x[:4], x[:4])
    function = getattr(mt, name)
    if name == "isneginf":
        x = x > 0
        arguments = (x[:4].to(mt.float32),)
    else:
        with pytest.raises(RuntimeError, match="in part"):
            function(*arguments, out=x[1:])
    out = x[:4]
    assert function(*arguments, out=out) is out


def test_an_out_that_is_an_argument_of_another_shape(place):
    x, y = numbers(3, place=place), numbers(2, 3, place=place)
    with pytest.raises(RuntimeError, match="cannot hold"):
        mt.maximum(x, y, out=x)
    assert x.shape == (3,)
    with pytest.warns(UserWarning, match="resized"):        # the kernel reads it before it is resized
        mt.mm(x.reshape(1, 3), y.t(), out=(m := x.reshape(1, 3)))
    assert m.shape == (1, 2)
    a, b = numbers(1, 3, place=place), numbers(3, 2, place=place)
    with pytest.warns(UserWarning, match="resized"):
        assert mt.mm(a, b, out=a) is a
    assert a.shape == (1, 2)
    if place == "cpu":
        assert a.tolist() == [[10.0, 13.0]]


# Dtypes of out= ------------------------------------------------------------------------------------

PAIRS = {
    "max": lambda x, o: mt.max(x, 0, out=o), "min": lambda x, o: mt.min(x, 0, out=o), "sort": lambda x, o: mt.sort(x, 0, out=o),
    "topk": lambda x, o: mt.topk(x, 1, out=o), "kthvalue": lambda x, o: mt.kthvalue(x, 1, out=o), "mode": lambda x, o: mt.mode(x, out=o),
    "median": lambda x, o: mt.median(x, 0, out=o), "nanmedian": lambda x, o: mt.nanmedian(x, 0, out=o),
    "cummax": lambda x, o: mt.cummax(x, 0, out=o), "cummin": lambda x, o: mt.cummin(x, 0, out=o),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_indices_have_exact_dtypes(name, place):
    x = numbers(3, place=place)
    new = lambda *dtypes: tuple(mt.empty(0, dtype=d, device=place) for d in dtypes)
    assert PAIRS[name](x, new(mt.float32, mt.int64))[1].dtype is mt.int64
    for dtypes in ((mt.float64, mt.int64), (mt.float32, mt.int32), (mt.float32, mt.float32)):
        with pytest.raises(RuntimeError, match=f"{name}.*cannot be cast"):
            PAIRS[name](x, new(*dtypes))


def test_other_exact_dtypes():
    pytest.importorskip("metatensor_cpu")
    x = numbers(3)
    with pytest.raises(RuntimeError):
        mt.nonzero(x, out=mt.empty(0))
    with pytest.raises(RuntimeError):
        mt.masked_select(x, x > 0, out=mt.empty(0, dtype=mt.float64))
    with pytest.raises(RuntimeError):
        mt.sum(x, 0, dtype=mt.float32, out=mt.empty((), dtype=mt.float64))
    assert mt.bernoulli(mt.ones(3), out=mt.empty(0, dtype=mt.int64)).tolist() == [1, 1, 1]
    assert mt.cat([mt.empty(0), mt.ones(2, 2)], 1, out=mt.empty(0)).shape == (2, 2)


# Order of errors --------------------------------------------------------------------------------------

@pytest.mark.parametrize("call", [
    lambda a, b: a.hypot_(b), lambda a, b: mt.hypot(a, b), lambda a, b: mt.gcd(a.float(), b.float()), lambda a, b: mt.bmm(a, b),
    lambda a, b: a.gcd_(mt.ones(2, device=a.device)),
    lambda a, b: mt.nn.functional.avg_pool2d(mt.ones(1, 2, 2, dtype=mt.bool, device=a.device), 3),
])  # fmt: skip
def test_shapes_and_casts_are_checked_before_dtypes(call, place):
    a, b = mt.ones(2, dtype=mt.int64, device=place), mt.ones(3, dtype=mt.int64, device=place)
    with pytest.raises(RuntimeError) as caught:
        call(a, b)
    assert not isinstance(caught.value, NotImplementedError)


def test_a_dtype_without_a_kernel_is_still_not_implemented(place):
    a = mt.ones(2, dtype=mt.int64, device=place)
    with pytest.raises(NotImplementedError, match="hypot.*int64"):
        mt.hypot(a, a)
    with pytest.raises(NotImplementedError, match="gcd.*float32"):
        mt.gcd(a.float(), a.float())


# Results of unbind, split and chunk ------------------------------------------------------------------

@pytest.mark.parametrize("call", [lambda x: x.unbind(0)[0], lambda x: x.split(1)[0], lambda x: x.chunk(2)[1], lambda x: next(iter(x)),
                                  lambda x: x.split_with_sizes([1, 2])[0]])  # fmt: skip
def test_one_of_several_views_is_not_changed_in_place(call, place):
    x = mt.zeros(3, 2, device=place, requires_grad=True) * 1
    view = call(x)
    with pytest.raises(RuntimeError, match=r"add_.*unbind"):
        view.add_(1)
    with mt.no_grad():
        view.add_(1)
    call(mt.zeros(3, 2, device=place)).add_(1)
    x[0].add_(1)


def test_conjugates_of_tensors_that_require_grad(place):
    z = mt.ones(2, 2, dtype=mt.complex64, device=place, requires_grad=True)
    for result in (z.conj().sin(), z.conj() @ z, z.conj().imag * 2, z.conj().resolve_conj()):
        assert result.requires_grad
    if place == "cpu":
        assert (z * 1j).conj().imag.detach().resolve_neg().tolist() == [[-1.0, -1.0]] * 2
