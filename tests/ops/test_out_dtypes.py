"""Dtypes of out=: meta accepts those of PyTorch's cpu, so that what runs on meta runs on a device."""

import pytest

import metatensor as mt

DTYPES = ["float16", "float32", "float64", "complex64", "int32", "int64", "bool", "uint8"]
INPUTS = {"a": (2, 3), "s": (3, 3), "t": (2, 3, 4), "u": (2, 4, 5), "r": (3,), "g": (2,), "m": (2, 3, 5), "x2": (1, 1, 4, 4)}
CALLS = """
add(a, a); mul(a, 2); sub(a, a); div(a, a); pow(a, 2); atan2(a, a); maximum(a, a); fmod(a, a); eq(a, a); logical_and(a, a)
exp(a); sqrt(a); sin(a); erf(a); sigmoid(a); reciprocal(a); square(a); isposinf(a); isneginf(a)
abs(a); neg(a); sign(a); sgn(a); signbit(a); ceil(a); floor(a); round(a); trunc(a); frac(a); nan_to_num(a); angle(a)
clamp(a, 0.0, 1.0); clamp_min(a, 0.0); clamp_max(a, 1.0); lerp(a, a, a); addcmul(a, a, a); addcdiv(a, a, a)
float_power(a, 2); heaviside(a, a); ldexp(a, i); xlogy(a, a); hypot(a, a); where(k, a, a); copysign(a, a)
mm(a, s); mv(a, r); bmm(t, u); dot(r, r); vdot(r, r); matmul(a, s); inner(r, r); outer(r, r); addmm(a, a, s); addmv(g, a, r)
addbmm(s, b, b); baddbmm(b, b, b); addr(s, r, r); tensordot(a, s, 1); linalg.multi_dot([a, s, s]); chain_matmul(a, s)
linalg.norm(a); linalg.vector_norm(a); linalg.matrix_norm(a); linalg.vecdot(a, a); norm(a, 2, 1); linalg.inv(s)
sum(a, 1); mean(a, 1); amax(a, 1); any(a, 1); all(a, 1); argmax(a, 1); argmin(a, 1); logsumexp(a, 1)
logcumsumexp(a, 1); softmax(a, 1); log_softmax(a, 1); quantile(a, 0.5); nanquantile(a, 0.5); msort(a); renorm(a, 2, 0, 1.0)
tril(s); triu(s); diag(r); index_select(a, 0, j); index_add(a, 0, j, a); index_copy(a, 0, j, a); take(a, j); gather(a, 1, i)
take_along_dim(a, i, 1); scatter(a, 1, i, a); scatter_add(a, 1, i, a); scatter_reduce(a, 1, i, a, "sum"); slice_scatter(a, a)
index_reduce(a, 0, j, a, "prod"); bucketize(a, r); searchsorted(r, a); nonzero_static(a, size=2); cat((a, a)); stack((a, a))
t_copy(a); view_copy(a, (3, 2)); permute_copy(a, (1, 0)); unsqueeze_copy(a, 0); alias_copy(a); narrow_copy(a, 0, 0, 1)
nn.functional.gelu(a); nn.functional.logsigmoid(a); nn.functional.softplus(a); nn.functional.linear(a, s)
nn.functional.avg_pool2d(x2, 2); special.entr(a); special.ndtr(a)
"""


def inputs(lib, device):
    made = {name: lib.ones(shape, device=device) for name, shape in INPUTS.items()}
    made["b"] = lib.ones((2, 3, 3), device=device)
    made["s"] = lib.eye(3, device=device)
    made["i"], made["j"] = (lib.zeros(s, dtype=lib.int64, device=device) for s in ((2, 3), (2,)))
    return made | {"k": lib.ones((2, 3), dtype=lib.bool, device=device)}


def takes(lib, device, call, shape, dtype):
    """Return True if a call accepts an out= of that dtype. Any other failure is an error."""
    name, _, arguments = call.partition("(")
    scope = inputs(lib, device) | {"lib": lib, "out": lib.empty(shape, dtype=getattr(lib, dtype), device=device)}
    try:
        eval(f"lib.{name}({arguments[:-1]}, out=out)", scope)
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    return True


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [call.strip() for call in CALLS.replace("\n", ";").split(";") if call.strip()])
def test_dtypes_of_out(call):
    torch = pytest.importorskip("torch")
    shape = eval(f"lib.{call}", inputs(mt, "meta") | {"lib": mt}).shape
    for dtype in DTYPES:
        theirs = takes(torch, "cpu", call, tuple(shape), dtype)
        assert takes(mt, "meta", call, shape, dtype) == theirs, f"out of {dtype}: PyTorch {'takes' if theirs else 'refuses'} it"


def test_in_place_may_still_cast():
    x = mt.ones(2, dtype=mt.float16, device="meta")
    assert x.clamp_(mt.zeros(2, device="meta")).dtype is mt.float16
    with pytest.raises(RuntimeError, match="float64.*float32|float32.*float64"):
        mt.mm(mt.ones(2, 3, device="meta"), mt.ones(3, 2, device="meta"), out=mt.empty(2, 2, dtype=mt.float64, device="meta"))
