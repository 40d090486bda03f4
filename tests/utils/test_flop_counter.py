"""FlopCounterMode: totals by operator and by module, compared with PyTorch's on meta."""

import random

import pytest

import metatensor as mt
from metatensor.utils.flop_counter import FlopCounterMode, register_flop_formula


def counted(function, *, grad=False):
    """Return the FLOPs by operator of metatensor's counter."""
    with mt.set_grad_enabled(grad), FlopCounterMode(display=False) as counter:
        function()
    return {str(op): n for op, n in counter.get_flop_counts().get("Global", {}).items() if n}, counter


def counted_by_torch(function, *, grad=False):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    with torch.set_grad_enabled(grad), Theirs(display=False) as counter:
        function()
    return {str(op): n for op, n in counter.get_flop_counts().get("Global", {}).items() if n}, counter


def both(function, **options):
    """Return both counts of ``function(library, functional, nn, m)``, where ``m`` creates a meta tensor."""
    torch = pytest.importorskip("torch")

    def run(t):
        def m(*shape, dtype="float32", **more):
            return t.empty(*shape, dtype=getattr(t, dtype), device="meta", **more)

        def inside():
            with t.device("meta"):
                return function(t, t.nn.functional, t.nn, m)

        return inside

    return counted(run(mt), **options)[0], counted_by_torch(run(torch), **options)[0]


# `t` is the library, `f` its nn.functional, `nn` its nn, `m` a function of sizes that creates a tensor.
CASES = {
    "mv": lambda t, f, nn, m: t.mv(m(3, 4), m(4)),
    "dot": lambda t, f, nn, m: t.dot(m(4), m(4)) + t.vdot(m(4), m(4)),
    "addmv, addr, addbmm": lambda t, f, nn, m: (
        t.addmv(m(3), m(3, 4), m(4)), t.addr(m(3, 4), m(3), m(4)), t.addbmm(m(3, 5), m(2, 3, 4), m(2, 4, 5))
    ),
    "baddbmm broadcast": lambda t, f, nn, m: t.baddbmm(m(5), m(2, 3, 4), m(2, 4, 5)),
    "in place": lambda t, f, nn, m: (m(2, 3, 5).baddbmm_(m(2, 3, 4), m(2, 4, 5)), m(3, 5).addmm_(m(3, 4), m(4, 5))),
    "out=": lambda t, f, nn, m: (
        t.mm(m(3, 4), m(4, 5), out=m(3, 5)), t.matmul(m(2, 3, 4), m(4, 5), out=m(2, 3, 5)),
        t.addmm(m(5), m(3, 4), m(4, 5), out=m(3, 5)), t.bmm(m(2, 3, 4), m(2, 4, 5), out=m(2, 3, 5)),
    ),
    "by name": lambda t, f, nn, m: t.matmul(other=m(4, 5), input=m(3, 4)),
    "vecdot, outer, kron": lambda t, f, nn, m: (t.linalg.vecdot(m(3, 4), m(3, 4)), t.outer(m(3), m(4)), t.kron(m(3, 4), m(5, 6))),
    "inner": lambda t, f, nn, m: (
        t.inner(m(3, 4), m(2, 4)), t.inner(m(4), m(4)), t.inner(m(4), m(2, 4)), t.inner(m(2, 3, 4), m(5, 6, 4)), t.inner(m(()), m(3)),
    ),
    "linear": lambda t, f, nn, m: (
        f.linear(m(4), m(5, 4), m(5)), f.linear(m(4), m(5, 4)), f.linear(m(2, 3, 4), m(5, 4), m(5)), f.linear(m(7, 2, 3, 4), m(5, 4)),
    ),
    "linear strided": lambda t, f, nn, m: (
        f.linear(m(2, 4, 3).mT, m(5, 4), m(5)), f.linear(m(3, 2, 4).transpose(0, 1), m(5, 4), m(5)), f.linear(m(4, 3).mT, m(5, 4), m(5)),
        f.linear(m(2, 3, 8)[..., :4], m(5, 4), m(5)), f.linear(m(2, 6, 4)[:, ::2], m(5, 4)),
    ),
    "linear by a vector": lambda t, f, nn, m: (f.linear(m(3, 4), m(4)), f.linear(m(2, 3, 4), m(4)), f.linear(m(2, 4, 3).mT, m(4))),
    "linear with gradients": lambda t, f, nn, m: nn.Linear(4, 5, bias=False)(m(3, 2, 4).transpose(0, 1)),
    "linear of nothing": lambda t, f, nn, m: (f.linear(m(0, 4), m(5, 4), m(5)), f.linear(m(3, 0), m(5, 0))),
    "bilinear": lambda t, f, nn, m: (f.bilinear(m(2, 3), m(2, 4), m(5, 3, 4), m(5)), f.bilinear(m(2, 7, 3), m(2, 7, 4), m(5, 3, 4))),
    "8 bits": lambda t, f, nn, m: (
        t._int_mm(m(32, 16, dtype="int8"), m(16, 32, dtype="int8")),
        t._scaled_mm(m(16, 32, dtype="float8_e4m3fn"), m(16, 32, dtype="float8_e4m3fn").t(), m(()), m(()), out_dtype=t.bfloat16),
    ),
    "cdist": lambda t, f, nn, m: (t.cdist(m(2, 50, 4), m(2, 60, 4)), t.cdist(m(5, 4), m(6, 4), p=1.0), f.pdist(m(5, 4))),
    "chains": lambda t, f, nn, m: (
        t.chain_matmul(m(3, 4), m(4, 5), m(5, 2)), t.linalg.multi_dot([m(4), m(4, 5), m(5)]),
        t.linalg.multi_dot([m(10, 100), m(100, 5), m(5, 50), m(50, 2)]), t.linalg.multi_dot([m(3, 4), m(4, 5), m(5)]),
    ),
    "tensordot": lambda t, f, nn, m: (
        t.tensordot(m(3, 4, 5), m(4, 5, 6), 2), t.tensordot(m(3, 4), m(5, 6), 0), t.tensordot(m(3, 4), m(4, 3), ([0], [1])),
    ),
    "tensordot to a number": lambda t, f, nn, m: t.tensordot(m(3, 4), m(3, 4), 2),
    "tensordot broadcast": lambda t, f, nn, m: t.tensordot(m(3, 1), m(4, 5), ([1], [0])),
    "powers": lambda t, f, nn, m: (t.linalg.matrix_power(m(3, 3), 5), t.linalg.matrix_power(m(2, 3, 3), 3), t.matrix_exp(m(3, 3))),
    "factors": lambda t, f, nn, m: (t.linalg.pinv(m(4, 3)), t.linalg.inv(m(4, 4)), t.linalg.solve(m(4, 4), m(4, 2)), t.linalg.det(m(4, 4))),
    "pointwise": lambda t, f, nn, m: f.gelu(m(3, 4) + m(4)).softmax(-1).cumsum(0),
    "losses": lambda t, f, nn, m: (f.cosine_similarity(m(3, 4), m(3, 4)), f.affine_grid(m(2, 2, 3), [2, 3, 4, 4])),
    "cross entropy of a product": lambda t, f, nn, m: f.linear_cross_entropy(m(3, 4), m(5, 4), m(3, dtype="int64")),
    "stft": lambda t, f, nn, m: t.stft(m(2, 400), n_fft=64, return_complex=True),
    "unfold, bags": lambda t, f, nn, m: (f.unfold(m(1, 2, 5, 5), 3), f.embedding_bag(m(3, 4, dtype="int64"), m(10, 5))),
    "conv": lambda t, f, nn, m: (
        f.conv1d(m(2, 3, 8), m(4, 3, 3), m(4)), f.conv2d(m(3, 8, 8), m(4, 3, 3, 3)),
        f.conv3d(m(1, 2, 4, 4, 4), m(3, 2, 3, 3, 3), padding=1),
        f.conv1d(m(2, 3, 8), m(4, 3, 4), padding="same"), f.conv2d(m(2, 8, 9, 9), m(4, 2, 3, 3), groups=4, stride=2, dilation=2),
        f.conv1d(m(0, 3, 8), m(4, 3, 3)),
    ),
    "conv transposed": lambda t, f, nn, m: (
        f.conv_transpose1d(m(2, 4, 10), m(4, 3, 3)), f.conv_transpose2d(m(2, 4, 5, 5), m(4, 3, 3, 3), groups=2, stride=2, output_padding=1),
        f.conv_transpose3d(m(4, 3, 3, 3), m(4, 2, 2, 2, 2)),
    ),
    "conv of complex numbers": lambda t, f, nn, m: (
        f.conv2d(m(2, 3, 8, 8, dtype="complex64"), m(4, 3, 3, 3, dtype="complex64"), m(4, dtype="complex64")),
        f.conv_transpose1d(m(2, 3, 8, dtype="complex64"), m(3, 4, 3, dtype="complex64")),
    ),
    "convolution": lambda t, f, nn, m: (
        t.convolution(m(2, 3, 8), m(4, 3, 3), None, [1], [0], [1], False, [0], 1),
        t.convolution(m(2, 3, 8), m(3, 4, 3), None, [1], [0], [1], True, [0], 1),
    ),
    "conv_tbc": lambda t, f, nn, m: t.conv_tbc(m(7, 2, 3), m(3, 3, 4), m(4), 1),
    "LinearCrossEntropyLoss": lambda t, f, nn, m: nn.LinearCrossEntropyLoss(4, 5)(m(3, 4), m(3, dtype="int64")),
    "Transformer": lambda t, f, nn, m: nn.Transformer(8, 2, 1, 1, 16)(m(5, 3, 8), m(6, 3, 8)),
    "packed": lambda t, f, nn, m: [
        cell(4, 5, 2, bidirectional=True)(nn.utils.rnn.pack_padded_sequence(m(7, 2, 4), t.tensor([7, 3], device="cpu")))
        for cell in (nn.RNN, nn.LSTM, nn.GRU)
    ],
    "complex numbers": lambda t, f, nn, m: m(3, 4, dtype="complex64") @ m(4, 5, dtype="complex64"),
}  # fmt: skip

MATMULS = [
    ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((3, 4), (4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((7, 1, 3, 4), (2, 4, 5)), ((1, 4), (4, 1)), ((0, 3, 4), (4,)), ((7, 2, 3, 4), (4,)),
    ((3, 0), (0, 5)), ((4,), (7, 2, 4, 5)), ((3, 4), (7, 2, 4, 5)),
]  # fmt: skip

EINSUMS = [
    ("i,i", (4,), (4,)), ("ij,j->i", (3, 4), (4,)), ("i,j->ij", (3,), (4,)), ("bij,bij->b", (2, 3, 4), (2, 3, 4)),
    ("ij,ij->ij", (3, 4), (3, 4)), ("bhid,bhjd->bhij", (2, 3, 5, 4), (2, 3, 6, 4)), ("ij,jk,kl->il", (3, 4), (4, 5), (5, 6)),
    ("ii->i", (3, 3)), ("ij->i", (3, 3)), ("ij,k->ik", (3, 4), (5,)), ("...ij,jk->...ik", (7, 2, 3, 4), (4, 5)),
    ("bij,bj->bi", (2, 3, 4), (1, 4)), ("bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5)), ("ij,kl->", (3, 4), (5, 6)),
    ("ijk,ilm,njm,nlk,abc->", (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2)), ("bhwc,hkc->bhwk", (2, 3, 4, 5), (3, 6, 5)),
    ("nchw,nhwpq->ncpq", (2, 3, 4, 5), (2, 4, 5, 6, 7)), ("a,a,a->a", (3,), (3,), (3,)), ("ab,ab->", (3, 4), (3, 4)),
    ("ab,cb->", (3, 4), (5, 4)),
]  # fmt: skip

ATTENTION = {
    "plain": ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "narrow values": ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)),
    "one batch of keys": ((2, 3, 5, 8), (1, 3, 7, 8), (1, 3, 7, 8)),
    "3": ((3, 5, 8), (3, 7, 8), (3, 7, 8)),
    "2": ((5, 8), (7, 8), (7, 8)),
    "5": ((2, 2, 3, 5, 8), (2, 2, 3, 7, 8), (2, 2, 3, 7, 8)),
    "keys 2": ((2, 3, 5, 8), (7, 8), (7, 8)),
    "queries 2": ((5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "one batch of values": ((2, 3, 5, 8), (2, 3, 7, 8), (1, 1, 7, 8)),
    "many values": ((1, 1, 5, 8), (1, 1, 7, 8), (2, 3, 7, 8)),
    "no keys": ((2, 3, 5, 8), (2, 3, 0, 8), (2, 3, 0, 8)),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("grad", [False, True])
def test_an_operator(name, grad):
    ours, theirs = both(CASES[name], grad=grad)
    assert ours == theirs


def variant(m, shape, how, grad):
    """Return a tensor of a shape: dense, with transposed dimensions, or every second element of a larger one."""
    if how == "mT" and len(shape) > 1:
        return m(*shape[:-2], shape[-1], shape[-2], requires_grad=grad).mT
    if how == "front" and len(shape) > 2:
        return m(shape[1], shape[0], *shape[2:], requires_grad=grad).transpose(0, 1)
    if how == "sliced":
        return m(*shape[:-1], 2 * shape[-1], requires_grad=grad)[..., ::2]
    return m(*shape, requires_grad=grad)


@pytest.mark.torch
@pytest.mark.parametrize("shapes", MATMULS, ids=str)
@pytest.mark.parametrize("grads", [(False, False), (True, False), (False, True)], ids=str)
def test_matmul(shapes, grads):
    for left in ("dense", "mT", "front", "sliced"):
        for right in ("dense", "mT", "front"):

            def run(t, f, nn, m, left=left, right=right):
                return variant(m, shapes[0], left, grads[0]) @ variant(m, shapes[1], right, grads[1])

            ours, theirs = both(run)
            assert ours == theirs, (left, right)


@pytest.mark.torch
@pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
def test_einsum(case):
    ours, theirs = both(lambda t, f, nn, m: t.einsum(case[0], *(m(*shape) for shape in case[1:])))
    assert ours == theirs


@pytest.mark.torch
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    shapes = ATTENTION[name]
    for options in ({}, {"is_causal": True}, {"dropout_p": 0.1}, {"scale": 2.0}):
        ours, theirs = both(lambda t, f, nn, m, options=options: f.scaled_dot_product_attention(*(m(*s) for s in shapes), **options))
        assert ours == theirs
    for mask in ("bool", "float32"):
        def run(t, f, nn, m, mask=mask):
            sizes = shapes[0][-2], shapes[1][-2]
            return f.scaled_dot_product_attention(*(m(*s) for s in shapes), attn_mask=m(*sizes, dtype=mask))

        ours, theirs = both(run)
        assert ours == theirs


@pytest.mark.torch
@pytest.mark.parametrize("shapes", [((2, 6, 5, 8), (2, 3, 7, 8)), ((6, 5, 8), (3, 7, 8)), ((2, 6, 5, 8), (2, 1, 7, 8))], ids=str)
def test_grouped_query_attention(shapes):
    ours, theirs = both(lambda t, f, nn, m: f.scaled_dot_product_attention(m(*shapes[0]), m(*shapes[1]), m(*shapes[1]), enable_gqa=True))
    assert ours == theirs


@pytest.mark.torch
@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
def test_recurrent(cell):
    layers = [
        (((4, 5), {}), (7, 2, 4)),
        (((4, 5, 2), {"bidirectional": True, "batch_first": True}), (2, 7, 4)),
        (((4, 5), {"bias": False}), (7, 4)),
        (((4, 5, 3), {"dropout": 0.5}), (7, 2, 4)),
    ]
    for (args, options), shape in layers:
        ours, theirs = both(lambda t, f, nn, m, args=args, options=options, shape=shape: getattr(nn, cell)(*args, **options)(m(*shape)))
        assert ours == theirs
    for bias in (True, False):
        for shape in ((2, 4), (4,)):
            ours, theirs = both(lambda t, f, nn, m, bias=bias, shape=shape: getattr(nn, cell + "Cell")(4, 5, bias=bias)(m(*shape)))
            assert ours == theirs
    if cell == "LSTM":
        for options in ({}, {"bidirectional": True}, {"bias": False}):
            ours, theirs = both(lambda t, f, nn, m, options=options: nn.LSTM(4, 5, 2, proj_size=3, **options)(m(7, 2, 4)))
            assert ours == theirs


@pytest.mark.torch
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_multi_head_layers(training, batch_first, grad):
    """Only totals are compared: projections of one input are a single product in PyTorch and three here."""

    def attention(need_weights, **options):
        def run(t, f, nn, m):
            layer = nn.MultiheadAttention(8, 2, batch_first=batch_first, **options).train(training)
            x, y = m(3, 5, 8), m(3, 5, options.get("kdim", 8))
            return layer(x, y, y, need_weights=need_weights)

        return run

    def encoder(layers=None, **options):
        def run(t, f, nn, m):
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first, **options)
            return (nn.TransformerEncoder(layer, layers, enable_nested_tensor=False) if layers else layer).train(training)(m(3, 5, 8))

        return run

    runs = [attention(True), attention(False), attention(False, add_bias_kv=True, add_zero_attn=True), attention(True, kdim=4, vdim=4)]
    for run in [*runs, encoder(), encoder(norm_first=True), encoder(2), encoder(activation="gelu")]:
        ours, theirs = both(run, grad=grad)
        assert sum(ours.values()) == sum(theirs.values())


def random_case(seed):
    """Return a product with random shapes and strides."""
    draw = random.Random(seed)
    sizes = [draw.choice((1, 2, 3)) for _ in range(draw.randint(0, 3))]
    n, k, o = (draw.choice((1, 2, 4, 5)) for _ in range(3))
    left, right = (*sizes, n, k), (*sizes[draw.randint(0, len(sizes)) :], k, o)
    how = [draw.choice(("dense", "mT", "front", "sliced")) for _ in range(2)]
    grads = [draw.random() < 0.3 for _ in range(2)]
    kind = draw.choice(("matmul", "linear", "linear bias", "column", "row"))

    def run(t, f, nn, m):
        a, b = variant(m, left, how[0], grads[0]), variant(m, right, how[1], grads[1])
        if kind == "matmul":
            return a @ b
        if kind == "column":
            return a @ variant(m, (k,), how[1], grads[1])
        if kind == "row":
            return variant(m, (k,), how[0], grads[0]) @ b
        return f.linear(a, variant(m, (o, k), how[1], grads[1]), m(o) if kind == "linear bias" else None)

    return run


@pytest.mark.torch
@pytest.mark.parametrize("block", range(4))
def test_random_products(block):
    for seed in range(50 * block, 50 * block + 50):
        ours, theirs = both(random_case(seed))
        assert ours == theirs, seed


def networks(t):
    """Return the same network in both libraries."""
    nn = t.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 3)
            self.blocks = nn.Sequential(nn.Conv2d(8, 8, 3, groups=2), nn.Sequential(nn.BatchNorm2d(8), nn.Conv2d(8, 16, 1)))
            self.head = nn.Linear(16, 10)

        def forward(self, x):
            return self.head(self.blocks(self.stem(x)).mean((2, 3))) @ t.empty(10, 2, device="meta")

    with t.device("meta"):
        return Net(), t.empty(2, 3, 16, 16)


@pytest.mark.torch
def test_modules_and_table():
    torch = pytest.importorskip("torch")
    ours, x = networks(mt)
    theirs, y = networks(torch)
    counter, other = counted(lambda: ours(x))[1], counted_by_torch(lambda: theirs(y))[1]

    def plain(counts):
        return {name: {str(op): n for op, n in by_op.items()} for name, by_op in counts.items()}

    assert plain(counter.get_flop_counts()) == plain(other.get_flop_counts())
    assert counter.get_total_flops() == other.get_total_flops()
    pytest.importorskip("tabulate")
    for depth in (None, 1, 2, 3):  # some versions of tabulate remove the indentation
        ours, theirs = ([line.split() for line in c.get_table(depth).splitlines() if "--" not in line] for c in (counter, other))
        assert ours == theirs


def test_the_table(capsys):
    model, x = networks(mt)
    with FlopCounterMode(depth=1):
        model(x)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"]
    assert lines[2].split() == ["Net", "409.680K", "100.00%"]
    assert " - aten.convolution" in lines[3]
    assert len(lines) == 6


def test_nothing_counted():
    with FlopCounterMode(display=False) as counter:
        pass
    assert counter.get_total_flops() == 0
    assert counter.get_table().splitlines()[2].split() == ["Global", "0", "0%"]


@pytest.mark.torch
def test_a_table_of_few():
    torch = pytest.importorskip("torch")
    pytest.importorskip("tabulate")
    ours, theirs = (t.nn.Sequential(t.nn.Linear(3, 4), t.nn.ReLU()).to("meta") for t in (mt, torch))
    tables = [
        count(lambda model=model, t=t: (model(t.empty(2, 3, device="meta")), model[0](t.empty(2, 3, device="meta"))))[1].get_table()
        for count, model, t in ((counted, ours, mt), (counted_by_torch, theirs, torch))
    ]
    assert tables[0].replace("-", "").split() == tables[1].replace("-", "").split()


def test_it_starts_again():
    a = mt.empty(3, 4, device="meta")
    with FlopCounterMode(display=False) as counter:
        a @ a.T
    with counter:
        a @ a.T
    assert counter.get_total_flops() == 2 * 3 * 3 * 4


def test_modes_below_see_the_operators():
    a = mt.empty(3, 4, device="meta")
    with FlopCounterMode(display=False) as outer, FlopCounterMode(display=False) as inner:
        mt.nn.functional.linear(a, a)
    assert outer.get_total_flops() == inner.get_total_flops() == 2 * 3 * 3 * 4


def test_mods_are_not_needed():
    with pytest.warns(UserWarning, match="mods"):
        FlopCounterMode(mt.nn.Linear(2, 3, device="meta"))


def test_more_formulas():
    from metatensor.torch_api.torch import ops

    @mt.op("flop_counter_test::pairs")
    def pairs(x: mt.Tensor, y: mt.Tensor) -> mt.Spec:
        """Return the products of all pairs of rows."""
        return mt.Spec((x.shape[0], y.shape[0]), x.dtype)

    x = mt.empty(4, 8, device="meta")
    with FlopCounterMode(display=False) as counter:
        pairs(x, x)
    assert counter.get_total_flops() == 0
    with FlopCounterMode(
        display=False, custom_mapping={ops.flop_counter_test.pairs: lambda a, b, out_shape=None: a[0] * b[0] + out_shape[1]}
    ) as counter:
        pairs(x, y=x)
    assert counter.get_total_flops() == 20
    assert counter.get_flop_counts()["Global"] == {ops.flop_counter_test.pairs: 20}

    @register_flop_formula([ops.flop_counter_test.pairs], get_raw=True)
    def raw(x, y, out_val=None):
        return out_val.numel()

    with FlopCounterMode(display=False) as counter:
        pairs(x, x)
        x @ x.T
    assert counter.get_flop_counts()["Global"] == {ops.flop_counter_test.pairs: 16, ops.aten.mm: 2 * 4 * 4 * 8}
    with pytest.raises(RuntimeError, match="already"):
        register_flop_formula(ops.flop_counter_test.pairs)(raw)
    with FlopCounterMode(display=False, custom_mapping={ops.aten.addmm: lambda bias, a, b, out_shape=None: bias[0]}) as counter:
        mt.nn.functional.linear(x, x, mt.empty(4, device="meta"))
    assert counter.get_total_flops() == 4


def test_what_is_no_operator_has_no_formula():
    with pytest.raises(ValueError, match="operators"):
        register_flop_formula(print)(lambda *shapes, out_shape=None: 1)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["flash_attention", "efficient_attention"])
def test_fused_attention_is_counted_as_by_torch(name):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import flop_registry as theirs

    from metatensor.utils.flop_counter import flop_registry as ours

    shapes = [(2, 4, 6, 12), (2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 12)]
    for half, given in (("", shapes[1:]), ("_backward", shapes)):
        counts = []
        for t, table in ((torch, theirs), (mt, ours)):
            tensors = [t.empty(shape, device="meta") for shape in given]
            found = [formula for key, formula in table.items() if str(key) == f"aten._scaled_dot_product_{name}{half}"]
            counts.append(found[0](*tensors, out_val=tensors[0]))
        assert counts[0] == counts[1] > 0
