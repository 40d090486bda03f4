"""einsum, tensordot, inner, kron and multi_dot: metadata compared with PyTorch, and values on every device."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, layouts, shapes

EQUATIONS = {
    "ij,jk": [(2, 3), (3, 4)],
    "ij,jk->ki": [(2, 3), (3, 4)],
    "bhid,bhjd->bhij": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "...ij,...jk->...ik": [(2, 3, 4), (4, 5)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "ij->": [(2, 3)],
    "ij->j": [(2, 3)],
    "i,j,k->kji": [(2,), (3,), (4,)],
    "ij,j->i": [(2, 3), (3,)],
    "ij,kl->il": [(2, 3), (4, 5)],
    "aij,ajk,akl->ail": [(2, 3, 4), (2, 4, 5), (2, 5, 3)],
    "i...->...": [(2, 3, 4)],
    "...->...": [(2, 3)],
    "iij->ij": [(3, 3, 2)],
    "abc,cd,ad->bd": [(2, 3, 4), (4, 5), (2, 5)],
    "ij,ij->i": [(1, 3), (2, 3)],
    "ijk,ijk->ik": [(2, 3, 4), (2, 3, 4)],
    "bij,bkj->kib": [(2, 3, 4), (2, 5, 4)],
    "ab,ab,c->abc": [(2, 3), (2, 3), (4,)],
    "A b,bA": [(2, 3), (3, 2)],
    ",->": [(), ()],
    "...a,...b->...ab": [(2, 3), (4, 5, 2, 6)],
}
DTYPES = ("int64", "float16", "float32", "complex64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


# Metadata ------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("equation", EQUATIONS)
@settings(max_examples=15)
@given(data=st.data())
def test_einsum(equation, data):
    given_ = [(data.draw(layouts(shape=s)), "float32") for s in EQUATIONS[equation]]
    conform(lambda m, *t: m.einsum(equation, *t), *given_)


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_any_equation(data):
    """Random subscripts, with a size for each letter, sometimes 1."""
    inputs = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    sizes = {letter: data.draw(st.integers(1, 3)) for letter in "abcd"}
    output = data.draw(st.none() | st.lists(st.sampled_from("abcd"), max_size=3, unique=True))
    equation = ",".join(inputs) + ("" if output is None else "->" + "".join(output))
    shapes_ = [tuple(data.draw(st.sampled_from([sizes[c], sizes[c], sizes[c], 1])) for c in labels) for labels in inputs]
    conform(lambda m, *t: m.einsum(equation, *t), *[(data.draw(layouts(shape=s)), "float32") for s in shapes_])


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_tensordot(data):
    a, b = data.draw(shapes(max_dims=3)), data.draw(shapes(max_dims=3))
    n = data.draw(st.integers(-1, 3))
    given_ = [(data.draw(layouts(shape=s)), "float32") for s in (a, b)]
    conform(lambda m, x, y: m.tensordot(x, y, n), *given_)
    dims_a, dims_b = (data.draw(st.lists(st.integers(-2, 2), max_size=2)) for _ in range(2))
    conform(lambda m, x, y: m.tensordot(x, y, (dims_a, dims_b)), *given_)
    shared = data.draw(st.permutations(range(len(a))))
    same = tuple(a[d] for d in shared)
    places = list(range(len(a)))
    conform(
        lambda m, x, y: m.tensordot(x, y, (list(shared), places)), given_[0], (data.draw(layouts(shape=same)), "float32")
    )


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_inner(data):
    k = data.draw(st.integers(1, 3))
    a, b = (*data.draw(shapes(max_dims=2)), k), (*data.draw(shapes(max_dims=2)), data.draw(st.sampled_from([k, k, 2])))
    given_ = [(data.draw(layouts(shape=s)), "float32") for s in data.draw(st.sampled_from([(a, b), (a, ()), ((), b)]))]
    conform(lambda m, x, y: m.inner(x, y), *given_)


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_vecdot(data):
    layout, other = data.draw(layouts(max_dims=3)), data.draw(layouts(max_dims=3))
    # PyTorch ignores dim for two vectors.
    dim = data.draw(st.integers(-3, 2)) if max(len(layout[0]), len(other[0])) > 1 else -1
    conform(lambda m, x, y: m.linalg.vecdot(x, y, dim=dim), (layout, "float32"), (other, "float32"))


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_chains(data):
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=3, max_size=6))
    chain = list(zip(sizes, sizes[1:], strict=False))
    if data.draw(st.booleans()):
        chain[0] = chain[0][1:]
    if data.draw(st.booleans()):
        chain[-1] = chain[-1][:1]
    conform(lambda m, *t: m.linalg.multi_dot(t), *[(data.draw(layouts(shape=s)), "float32") for s in chain])


@pytest.mark.torch
@given(a=shapes(max_dims=3, min_size=1), b=shapes(max_dims=3, min_size=1))
def test_kron(a, b):
    dense = [(s, tuple(meta(*s).stride())) for s in (a, b)]
    conform(lambda m, x, y: m.kron(x, y), (dense[0], "float32"), (dense[1], "int64"))


def test_forms_of_einsum():
    a, b = meta(2, 3), meta(3, 4)
    assert mt.einsum("ij,jk", [a, b]).shape == (2, 4)
    assert mt.einsum(a, [0, 1], b, [1, 2], [2, 0]).shape == (4, 2)
    assert mt.einsum(a, [..., 1], b, [1, 2]).shape == (2, 4)
    assert mt.einsum("ij->ji", a).stride() == (1, 3)
    assert mt.chain_matmul(a, b, meta(4, 5)).shape == (2, 5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.einsum("ij,jk", meta(2, 3)), RuntimeError, "einsum.*2 operands.*1"),
        (lambda: mt.einsum("ijk", meta(2, 3)), RuntimeError, "einsum.*2 dim.*'ijk'"),
        (lambda: mt.einsum("ij->k", meta(2, 3)), RuntimeError, "einsum.*'k'"),
        (lambda: mt.einsum("ij->ii", meta(2, 3)), RuntimeError, "einsum.*'i'.*more than once"),
        (lambda: mt.einsum("i1", meta(2, 3)), RuntimeError, "einsum.*'1'"),
        (lambda: mt.einsum("i..", meta(2, 3)), RuntimeError, r"einsum.*'i\.\.'"),
        (lambda: mt.einsum("ii", meta(2, 3)), RuntimeError, r"einsum.*2.*3.*\[2, 3\]"),
        (lambda: mt.einsum("ij,jk", meta(2, 3), meta(4, 5)), RuntimeError, r"einsum.*3.*4.*\[2, 3\], \[4, 5\]"),
        (lambda: mt.einsum("ij", 3), TypeError, "einsum.*int"),
        (lambda: mt.einsum(meta(2, 3), 3), TypeError, "einsum.*list of subscripts.*int"),
        (lambda: mt.einsum(meta(2, 3), [52, 0]), RuntimeError, "einsum.*0 to 51.*52"),
        (lambda: mt.tensordot(meta(2, 3), meta(2, 3), 1), RuntimeError, r"tensordot.*3.*2.*\[2, 3\]"),
        (lambda: mt.tensordot(meta(2), meta(2), 2), RuntimeError, "tensordot.*dims.*2"),
        (lambda: mt.inner(meta(2, 3), meta(4)), RuntimeError, r"inner.*\[2, 3\].*\[4\]"),
        (lambda: mt.linalg.multi_dot([meta(2, 3)]), RuntimeError, "multi_dot.*1"),
        (lambda: mt.linalg.multi_dot([meta(2, 3), meta(2, 3)]), RuntimeError, r"multi_dot.*0 and 1.*\[2, 3\]"),
        (lambda: mt.chain_matmul(meta(2)), RuntimeError, r"chain_matmul.*\[2\]"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Values ---------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_values(equation, dtype, device):
    given_ = [numbers(dtype, s, i) for i, s in enumerate(EQUATIONS[equation])]
    agree(lambda m, *t: m.einsum(equation, *t), *given_, dtype=dtype, device=device, tolerance=5e-3 if dtype == "float16" else None)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_values(dtype, device):
    x, y = numbers(dtype, (3, 4)), numbers(dtype, (3, 4), 1)
    for dims in (0, 2, ([0], [0]), ([1], [1]), ([0, 1], [0, 1])):
        agree(lambda m, a, b, d=dims: m.tensordot(a, b, d), x, y, dtype=dtype, device=device)
    agree(lambda m, a, b: (m.inner(a, b), m.inner(a, b[0]), m.kron(a, b), m.kron(a[0], b)), x, y, dtype=dtype, device=device)
    agree(lambda m, a, b: (m.linalg.vecdot(a, b), m.linalg.vecdot(a, b, dim=0)), x, y, dtype=dtype, device=device)


@pytest.mark.torch
def test_chain_values(device):
    given_ = [numbers("float32", s, i) for i, s in enumerate([(3,), (3, 4), (4, 2), (2, 5), (5,)])]
    agree(lambda m, *t: m.linalg.multi_dot(t), *given_, device=device)
    agree(lambda m, *t: m.chain_matmul(*t[1:4]), *given_, device=device)
