"""The gradients of all operators against finite differences."""

import itertools

import pytest

import metatensor as mt
from gradient_cases import calls, operators, written_operators

REAL, COMPLEX = mt.float64, mt.complex128

# Why an operator is not checked with generated arguments.
OTHERS = {
    "igamma": "its first argument has no gradient",
    "igammac": "its first argument has no gradient",
    "special.zeta": "its first argument has no gradient",
    "log_sigmoid_forward": "the second result is a buffer",
    "native_layer_norm": "the mean and the deviation have no gradient, as in PyTorch",
    "_weight_norm_interface": "the norms have no gradient, as in PyTorch",
    "_native_batch_norm_legit.no_stats": "the mean and the deviation have no gradient, as in PyTorch",
    "nn.functional.ctc_loss": "its gradient is that for logarithms of probabilities that add up to 1",
    "nn.functional.ctc_loss.ints": "its gradient is that for logarithms of probabilities that add up to 1",
    "_to_copy": "the generated dtype is single precision",
    "_fft_c2r": "the generated sizes do not belong together",
    "nn.functional.max_unpool2d": "the generated places are written twice",
    "nn.functional.max_unpool3d": "the generated places are written twice",
    "scatter": "the generated places are written twice",
    "put": "the generated places are written twice",
    **dict.fromkeys(("linalg.cholesky_ex", "cholesky", "cholesky_inverse", "cholesky_solve", "linalg.eigh", "linalg.eigvalsh"),
                    "it reads one triangle of a matrix that is symmetric"),
    **dict.fromkeys(("linalg.eig", "linalg.svd"), "vectors are determined up to a factor"),
    **dict.fromkeys(("linalg.pinv.rcond_tensor", "linalg.pinv.rcond", "linalg.pinv"), "the generated matrices may lose their rank"),
    **dict.fromkeys(("_linalg_det", "_linalg_slogdet", "_linalg_solve_ex"), "the other results are saved factors without a gradient"),
}


def values(*shape, dtype=REAL):
    """Return numbers between 0.1 and 1 that depend on the shape."""
    count = 1
    for n in shape:
        count *= n
    t = (mt.arange(count, dtype=mt.float64, device="cpu") * 0.7390851).remainder(0.9).add(0.1).reshape(shape)
    return (mt.complex(t, t.flip(0) if shape else t) if dtype.is_complex else t).requires_grad_()


def index(*numbers):
    return mt.tensor(numbers, device="cpu")


def logs(t):
    return mt.nn.functional.log_softmax(t, -1)


def square(n, dtype=REAL):
    """Return a matrix whose eigenvalues are far from each other and from 0."""
    t = values(n, n, dtype=dtype).detach() + mt.diag(mt.arange(1, n + 1, dtype=REAL, device="cpu") * 2).to(dtype)
    return t.requires_grad_()


def definite(a):
    return a @ a.mH + mt.eye(a.shape[0], dtype=a.dtype, device="cpu")


def functions_of_vectors(numbers, vectors):
    """Return what does not depend on the signs of eigenvectors."""
    return numbers, vectors.abs()


def of_svd(u, s, vh):
    return u.abs(), s, u @ vh


F = mt.nn.functional

# Operators whose result counts as constant for the gradient, as in PyTorch.
CONSTANT = {"normal", "normal.Tensor_float", "normal.float_Tensor"}  # what is drawn counts as constant



def running():
    """Return the running mean and variance of two channels."""
    return mt.zeros(2, dtype=REAL, device="cpu"), mt.ones(2, dtype=REAL, device="cpu")


# Calls of operators for which no arguments are generated, and of those above.
CALLS = {
    "igamma": (lambda y: mt.igamma(mt.full((3,), 0.6, dtype=REAL, device="cpu"), y), values(3)),
    "igammac": (lambda y: mt.igammac(mt.full((3,), 0.6, dtype=REAL, device="cpu"), y), values(3)),
    "special.zeta": (lambda y: mt.special.zeta(mt.full((3,), 2.5, dtype=REAL, device="cpu"), y), values(3)),
    "log_sigmoid_forward": (lambda x: F.logsigmoid(x), values(3)),
    "_weight_norm_interface": (lambda v, g: mt._weight_norm_interface(v, g, 0)[0], values(2, 3), values(2, 1)),
    "native_layer_norm": (lambda x, w, b: mt.native_layer_norm(x, (3,), w, b, 1e-5)[0], values(2, 3), values(3), values(3)),
    "nn.functional.batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), values(4, 2), values(2), values(2)),
    "native_batch_norm": (lambda x, w, b: mt.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)[0], values(4, 2), values(2),
                          values(2)),
    "nn.functional._batch_norm_train": (
        lambda x, w, b: F._batch_norm_train(x, *running(), w, b, 0.1, 1e-5)[0], values(4, 2), values(2), values(2)),
    "nn.functional._instance_norm_train": (
        lambda x, w, b: F._instance_norm_train(x, *running(), w, b, 0.1, 1e-5)[0], values(3, 2, 4), values(2), values(2)),
    "nn.functional.ctc_loss": (lambda x: F.ctc_loss(logs(x), index(1, 2).reshape(1, 2), index(4), index(2)), values(4, 1, 3)),
    "_to_copy": (lambda x: x.to(COMPLEX), values(2, 3)),
    "_fft_c2r": (lambda x: mt.fft.irfft(x, n=5), values(2, 3, dtype=COMPLEX)),
    "nn.functional.max_unpool2d": (lambda x: F.max_unpool2d(x, index(0, 3, 9, 14).reshape(1, 1, 2, 2), 2), values(1, 1, 2, 2)),
    "nn.functional.max_unpool3d": (lambda x: F.max_unpool3d(x, index(5).reshape(1, 1, 1, 1, 1), 2), values(1, 1, 1, 1, 1)),
    "scatter": (lambda x, y: x.scatter(0, index(2, 0, 3), y), values(4), values(3)),
    "put": (lambda x, y: x.put(index(2, 0, 3), y), values(4), values(3)),
    "polygamma.n": (lambda x: mt.polygamma(1, x), values(3)),
    "nn.functional.conv3d": (lambda x, w, b: F.conv3d(x, w, b, padding=1), values(1, 2, 2, 2, 2), values(1, 2, 2, 2, 2), values(1)),
    "nn.functional.conv3d.padding": (lambda x, w: F.conv3d(x, w, padding="same"), values(1, 1, 2, 3, 2), values(2, 1, 2, 1, 2)),
    "nn.functional.conv_transpose3d": (lambda x, w: F.conv_transpose3d(x, w, stride=2), values(1, 2, 2, 2, 2), values(2, 1, 2, 2, 2)),
    "_index": (lambda x: x[index(0, 2, 0), :, index(1, 1, 0)], values(3, 2, 2)),
    "_index_put_": (lambda x, y: x.index_put((index(0, 2),), y), values(3, 2), values(2, 2)),
    "_index_put_accumulate_": (lambda x, y: x.index_put((index(0, 2, 0),), y, accumulate=True), values(3, 2), values(3, 2)),
    "narrow": (lambda x: x.narrow(1, mt.tensor(1, device="cpu"), 2), values(2, 3)),
    "tensor_split": (lambda x: x.tensor_split(index(1, 2)), values(4, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(index(1, 0, 2)), values(3)),
    "cholesky": (lambda a: mt.cholesky(definite(a), upper=True), square(3)),
    "linalg.cholesky_ex": (lambda a: mt.linalg.cholesky(definite(a)), square(3, COMPLEX)),
    "cholesky_inverse": (lambda a: mt.cholesky_inverse(mt.linalg.cholesky(definite(a))), square(3)),
    "cholesky_solve": (lambda b, a: mt.cholesky_solve(b, mt.linalg.cholesky(definite(a))), values(3, 2), square(3)),
    "linalg.eigvalsh": (lambda a: mt.linalg.eigvalsh(a + a.mH), square(3, COMPLEX)),
    "linalg.eigh": (lambda a: functions_of_vectors(*mt.linalg.eigh(a + a.mT)), square(3)),
    "linalg.eig": (lambda a: mt.linalg.eigvals(a).abs().sort()[0], square(3)),
    "linalg.svd": (lambda a: of_svd(*mt.linalg.svd(a, full_matrices=False)), values(3, 2)),
    "linalg.pinv": (lambda a: mt.linalg.pinv(a), values(3, 2)),
    "linalg.pinv.rcond": (lambda a: mt.linalg.pinv(a, rcond=1e-10), values(3, 2)),
    "linalg.pinv.rcond_tensor": (lambda a: mt.linalg.pinv(a, rtol=mt.tensor(1e-10, dtype=REAL, device="cpu")), values(3, 2)),
    "_linalg_det": (lambda a: mt.linalg.det(a), square(3, COMPLEX)),
    "_linalg_slogdet": (lambda a: mt.linalg.slogdet(a)[1], square(3)),
    "_linalg_solve_ex": (lambda a, b: mt.linalg.solve(a, b), square(3), values(3, 2)),
    "pdist": (lambda x: F.pdist(x, 3.0), values(3, 2)),
    "cdist": (lambda x, y: mt.cdist(x, y + 1), values(3, 2), values(2, 2)),
    "masked_select": (lambda x: x.masked_select(x > 0.5), values(5)),
    "nn.functional.embedding_bag": (lambda w: F.embedding_bag(index(0, 2, 1, 2), w, index(0, 2), mode="sum"), values(3, 2)),
    "linear complex": (lambda x, w, b: F.linear(x, w, b), values(2, 3, dtype=COMPLEX), values(2, 3, dtype=COMPLEX),
                       values(2, dtype=COMPLEX)),
    "mul complex": (lambda x, y: x * y / (x + 2), values(3, dtype=COMPLEX), values(3, dtype=COMPLEX)),
    "abs complex": (lambda x: x.abs() + x.angle(), values(3, dtype=COMPLEX)),
    "fft complex": (lambda x: mt.fft.fftn(x), values(2, 3, dtype=COMPLEX)),
    "fft of real": (lambda x: mt.fft.fft2(x), values(2, 3)),
    "rfft": (lambda x: mt.fft.rfft(x, norm="ortho"), values(2, 5)),
    "hfft": (lambda x: mt.fft.hfft(x), values(2, 3, dtype=COMPLEX)),
    "conv complex": (lambda x, w: F.conv1d(x, w, padding="same"), values(1, 1, 4, dtype=COMPLEX), values(1, 1, 2, dtype=COMPLEX)),
}

# Halves of a backward pass, which the second derivatives of other operators check.
HALVES = {
    "_pdist_backward", "_cdist_backward", "_masked_select", "_embedding_bag", "_embedding_bag_backward",
    "_embedding_bag_weights_backward",
    "convolution_backward", "multi_margin_loss_backward", "multilabel_margin_loss_backward", "nll_loss_backward", "_nll_loss_forward",
    "_ctc_loss", "native_layer_norm_backward", "native_group_norm_backward", "native_batch_norm_backward", "_batch_norm_forward",
    "_native_batch_norm_legit", "_native_batch_norm_legit.no_stats", "_repeat_interleave", "_repeat_interleave_by", "_upsample_backward",
    "embedding_dense_backward", "_grid_sampler_backward", "nn.functional.ctc_loss.ints",
    "_without_backward",  # its gradient is an error, which `tests/program/test_custom_functions.py` checks
    "_grouped_mm",  # has no double precision; `tests/ops/test_grouped.py` compares its gradient with that of its products
    # what `tests/rules/test_policies.py` compares; only the first result has a gradient
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward", "_fused_rms_norm", "_fused_rms_norm_backward",
}  # fmt: skip

OPERATORS = operators()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in OTHERS and name not in CALLS and name not in HALVES | CONSTANT])
def test_gradients_equal_differences(name):
    constant = ("running_mean", "running_var")
    found = list(itertools.islice(calls(*OPERATORS[name], constant=constant), 2))
    assert found, "no arguments were found; add a call to CALLS"
    for call in found:
        assert mt.autograd.gradcheck(call, call.inputs)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_given_calls_equal_differences(name):
    function, *inputs = CALLS[name]
    assert mt.autograd.gradcheck(function, tuple(inputs))


def test_operators_that_are_not_generated_are_given_or_halves():
    assert not [name for name in OTHERS if name not in CALLS and name not in HALVES]
    assert not [name for name in HALVES if name not in OPERATORS]


WRITTEN = {name: found for name, found in written_operators().items() if found[1].qualname not in OTHERS}


@pytest.mark.parametrize("name", sorted(CONSTANT))
def test_drawn_numbers_are_constant(name):
    for call in itertools.islice(calls(*OPERATORS[name]), 1):
        found = mt.autograd.grad(call(*call.inputs).sum(), call.inputs)
        assert all(g.count_nonzero() == 0 for g in found)


@pytest.mark.parametrize("name", WRITTEN)
def test_gradients_through_writes_equal_differences(name):
    for call in itertools.islice(calls(*WRITTEN[name]), 1):
        assert mt.autograd.gradcheck(call, call.inputs)


# Second derivatives ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in OTHERS and name not in CALLS and name not in HALVES | CONSTANT])
def test_second_derivatives_equal_differences(name):
    found = list(itertools.islice(calls(*OPERATORS[name], largest=200, constant=("running_mean", "running_var")), 1))
    if not found:  # only images of three dimensions are that large
        pytest.skip("the generated arguments are large")
    assert mt.autograd.gradgradcheck(found[0], found[0].inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CALLS if name != "nn.functional.ctc_loss"])  # PyTorch has none either
def test_second_derivatives_of_given_calls_equal_differences(name):
    function, *inputs = CALLS[name]
    assert mt.autograd.gradgradcheck(function, tuple(inputs))
