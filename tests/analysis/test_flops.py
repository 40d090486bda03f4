"""FLOP rules, compared with counts by hand and, if installed, with PyTorch's counter."""

import pytest

import metatensor as mt
from metatensor.analysis import estimate
from metatensor.nn import functional as F
from metatensor.rules import costless, flops


def meta(*shape):
    return mt.empty(*shape, device="meta")


# Name, function of a library, shapes of its tensors, FLOPs counted by hand. `t` is the library, `f` its functional
# module.
CASES = [
    ("mm", lambda t, f, a, b: t.mm(a, b), [(3, 4), (4, 5)], 2 * 3 * 4 * 5),
    ("matmul 2d", lambda t, f, a, b: a @ b, [(3, 4), (4, 5)], 2 * 3 * 4 * 5),
    ("matmul batch", lambda t, f, a, b: a @ b, [(2, 7, 3, 4), (7, 4, 5)], 2 * 14 * 3 * 4 * 5),
    ("matmul batch, matrix", lambda t, f, a, b: a @ b, [(2, 7, 3, 4), (4, 5)], 2 * 14 * 3 * 4 * 5),
    ("bmm", lambda t, f, a, b: t.bmm(a, b), [(6, 3, 4), (6, 4, 5)], 2 * 6 * 3 * 4 * 5),
    ("addmm", lambda t, f, a, b, c: t.addmm(a, b, c), [(5,), (3, 4), (4, 5)], 2 * 3 * 4 * 5),
    ("baddbmm", lambda t, f, a, b, c: t.baddbmm(a, b, c), [(6, 3, 5), (6, 3, 4), (6, 4, 5)], 2 * 6 * 3 * 4 * 5),
    ("linear", lambda t, f, a, b, c: f.linear(a, b, c), [(2, 3, 4), (5, 4), (5,)], 2 * 6 * 4 * 5),
    ("einsum", lambda t, f, a, b: t.einsum("bij,bjk->bik", a, b), [(6, 3, 4), (6, 4, 5)], 2 * 6 * 3 * 4 * 5),
    ("conv1d", lambda t, f, a, b: f.conv1d(a, b, padding=1), [(2, 3, 10), (8, 3, 3)], 2 * 2 * 8 * 10 * 9),
    ("conv2d", lambda t, f, a, b, c: f.conv2d(a, b, c), [(2, 3, 8, 8), (4, 3, 3, 3), (4,)], 2 * 2 * 4 * 36 * 27),
    ("conv2d stride", lambda t, f, a, b: f.conv2d(a, b, stride=2), [(2, 3, 9, 9), (4, 3, 3, 3)], 2 * 2 * 4 * 16 * 27),
    ("conv2d groups", lambda t, f, a, b: f.conv2d(a, b, groups=4), [(2, 8, 8, 8), (4, 2, 3, 3)], 2 * 2 * 4 * 36 * 18),
    ("conv2d dilation", lambda t, f, a, b: f.conv2d(a, b, dilation=2), [(1, 3, 8, 8), (4, 3, 3, 3)], 2 * 4 * 16 * 27),
    ("conv2d unbatched", lambda t, f, a, b: f.conv2d(a, b), [(3, 8, 8), (4, 3, 3, 3)], 2 * 4 * 36 * 27),
    ("conv2d same", lambda t, f, a, b: f.conv2d(a, b, padding="same"), [(1, 3, 8, 8), (4, 3, 3, 3)], 2 * 4 * 64 * 27),
    ("conv3d", lambda t, f, a, b: f.conv3d(a, b), [(1, 2, 4, 4, 4), (3, 2, 3, 3, 3)], 2 * 3 * 8 * 54),
    ("conv_transpose1d", lambda t, f, a, b: f.conv_transpose1d(a, b), [(2, 4, 10), (4, 3, 3)], 2 * 2 * 40 * 9),
    ("conv_transpose2d", lambda t, f, a, b: f.conv_transpose2d(a, b, stride=2), [(2, 4, 5, 5), (4, 3, 3, 3)], 2 * 2 * 100 * 27),
    ("conv_transpose2d groups", lambda t, f, a, b: f.conv_transpose2d(a, b, groups=2), [(1, 4, 5, 5), (4, 3, 3, 3)], 2 * 100 * 27),
    (
        "attention",
        lambda t, f, q, k, v: f.scaled_dot_product_attention(q, k, v),
        [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)],
        2 * 6 * 5 * 7 * (8 + 4),
    ),
    (
        "attention, causal",
        lambda t, f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 3, 5, 8), (2, 3, 5, 8), (2, 3, 5, 8)],
        2 * 6 * 5 * 5 * 16,
    ),
    ("pointwise", lambda t, f, a, b: f.gelu(a + b).softmax(-1), [(3, 4), (3, 4)], 0),
    ("norms", lambda t, f, a, b: f.layer_norm(f.rms_norm(a, (4,)), (4,), b), [(3, 4), (4,)], 0),
    ("views", lambda t, f, a: a.view(4, 3).transpose(0, 1)[1:].unsqueeze(0), [(3, 4)], 0),
]

# Matrix products that PyTorch's counter omits.
OURS = [
    ("mv", lambda t, f, a, b: t.mv(a, b), [(3, 4), (4,)], 2 * 12),
    ("matmul with a vector", lambda t, f, a, b: a @ b, [(3, 4), (4,)], 2 * 12),
    ("dot", lambda t, f, a, b: t.dot(a, b), [(4,), (4,)], 8),
    ("matmul of vectors", lambda t, f, a, b: a @ b, [(4,), (4,)], 8),
    ("addmv", lambda t, f, a, b, c: t.addmv(a, b, c), [(3,), (3, 4), (4,)], 2 * 12),
    ("vecdot", lambda t, f, a, b: t.linalg.vecdot(a, b, dim=0), [(4, 3), (4, 3)], 2 * 12),
    ("bilinear", lambda t, f, a, b, c: f.bilinear(a, b, c), [(2, 3), (2, 4), (5, 3, 4)], 2 * 10 * (12 + 3)),
]

GQA = [(2, 8, 5, 16), (2, 2, 7, 16), (2, 2, 7, 16)]


@pytest.mark.parametrize(("function", "shapes", "expected"), [case[1:] for case in CASES + OURS], ids=[case[0] for case in CASES + OURS])
def test_by_hand(function, shapes, expected):
    report = estimate(lambda *tensors: function(mt, F, *tensors), *(meta(*shape) for shape in shapes))
    assert report.flops == expected
    assert report.gaps == []


def test_grouped_query_attention_counts_the_query_heads():
    def run(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    assert estimate(run, *(meta(*shape) for shape in GQA)).flops == 2 * 16 * 5 * 7 * 32


def test_multi_head_attention_is_counted_in_its_parts():
    with mt.device("meta"):
        layer = mt.nn.MultiheadAttention(8, 2, batch_first=True)
    x = meta(1, 5, 8)
    products = 2 * 5 * 8 * 32  # three projections in, one out
    assert estimate(layer, x, x, x).flops == products + 2 * 2 * 5 * 5 * 8


def test_arguments_by_name_and_in_place():
    assert estimate(lambda a, b: mt.matmul(other=b, input=a), meta(3, 4), meta(4, 5)).flops == 120
    assert estimate(lambda a, b, c: a.addmm_(mat1=b, mat2=c), meta(3, 5), meta(3, 4), meta(4, 5)).flops == 120
    assert estimate(lambda a, b, c: mt.mm(a, b, out=c), meta(3, 4), meta(4, 5), meta(3, 5)).flops == 120


def test_empty_products_are_nothing():
    assert estimate(lambda a, b: a @ b, meta(0, 4), meta(4, 5)).flops == 0
    assert estimate(lambda a, b: a @ b, meta(3, 0), meta(0, 5)).flops == 0


@pytest.mark.torch
@pytest.mark.parametrize(("function", "shapes", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_against_pytorch(function, shapes, expected):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    tensors = [torch.empty(*shape, device="meta") for shape in shapes]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        function(torch, torch.nn.functional, *tensors)
    assert counter.get_total_flops() == expected


def test_the_rule_of_a_custom_operator():
    @mt.op("flops_test::pairs")
    def pairs(x: mt.Tensor, *, twice: bool = False) -> mt.Spec:
        """Return the products of all pairs of rows."""
        return mt.Spec((x.shape[0], x.shape[0]), x.dtype)

    assert [gap.op for gap in estimate(pairs, meta(4, 8)).gaps] == ["flops_test::pairs"]

    @pairs.flops
    def rule(out, x, *, twice=False):
        return 2 * out.numel() * x.shape[1] * (2 if twice else 1)

    assert estimate(pairs, meta(4, 8)).flops == 256
    report = estimate(pairs, meta(4, 8), twice=True)
    assert report.flops == 512
    assert report.gaps == []


def test_a_rule_cannot_be_registered_twice():
    with pytest.raises(RuntimeError, match="mm"):
        mt.library.flops("mm")(lambda out, *args: 0)


def test_tables_do_not_contradict_each_other():
    assert not costless.FREE & costless.UNCOUNTED
    assert not set(flops.FLOPS) & (costless.FREE | costless.UNCOUNTED)


# Built-in operators without a known cost: pairs of all rows, and a recursion over time.
GAPS = {"cdist", "pdist", "nn.functional.ctc_loss"}


def test_every_built_in_operator_is_classified():
    from metatensor._core.op import registry

    composite = 8
    primitives = {op.name: op for op in registry.values() if op.variant == 0 and not op.flags & composite and "::" not in op.name}
    gaps = {name for name, op in primitives.items() if flops.classify(op)[0] == flops.GAP}
    assert gaps == GAPS, "give these a rule in metatensor/rules/flops.py, or list them in metatensor/rules/costless.py"


def test_no_table_names_an_operator_that_does_not_exist():
    from metatensor._core.op import registry

    assert {*flops.FLOPS, *costless.FREE, *costless.UNCOUNTED} - set(registry) == set()


@pytest.mark.parametrize("returned, error", [("12", TypeError), (None, TypeError), (True, TypeError), (-1, ValueError), (0.5, ValueError),
                                             (float("nan"), ValueError)])
def test_a_rule_that_returns_no_count_is_named(returned, error):
    name = f"flop_rules::op{type(returned).__name__}{str(returned).translate(str.maketrans('-.', 'm_'))}"
    op = mt.library.define(f"{name}(Tensor x) -> Tensor")
    mt.library.meta(name)(lambda x: mt.Spec(x.shape, x.dtype))

    @op.flops
    def my_rule(out, x):
        return returned

    with pytest.raises(error, match=f"{name}: its FLOP rule .*my_rule"):
        estimate(op, meta(2, 3))


def test_a_rule_may_return_any_whole_number():
    import numpy as np

    op = mt.library.define("flop_rules::right(Tensor x) -> Tensor")
    mt.library.meta("flop_rules::right")(lambda x: mt.Spec(x.shape, x.dtype))
    op.flops(lambda out, x: np.int64(12))
    assert estimate(op, meta(2, 3)).flops == 12
