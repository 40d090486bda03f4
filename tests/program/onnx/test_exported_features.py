"""What operators' samples do not show: options of modules, writes, indexing, recurrent networks, attention; and PyTorch's values."""

import importlib

import pytest

import metatensor as mt
from metatensor import nn

pytest.importorskip("metatensor_cpu")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from program.onnx.exports import array, assert_close, check, exported, run

F = nn.functional


def rand(*shape):
    return mt.rand(*shape, device="cpu") * 2 - 1


def ids(*values):
    return mt.tensor(values, device="cpu")


def written(x):
    y = x.clone()
    y[:, 1] = 3
    y[0] += 1
    y[:, ::2] *= 2
    y.transpose(0, 1)[0] = 7
    y[ids(0, 1), ids(2, 0)] = 5
    y[mt.tensor(1, device="cpu")] = -1
    y.relu_()
    return y


FUNCTIONS = {
    "writes": lambda x: written(x),
    "put": lambda x: x.index_put((ids(0, 1, 0), ids(1, 2, 1)), ids(1.0, 2.0, 3.0), accumulate=True),
    "writes to a view": lambda x: written(x.t()),
    "index": lambda x: (x[ids(1, 0)], x[:, ids(2, 2, 0)], x[ids([0], [1]), ids([1, 2])], x[..., None][:, ids(1), 0]),
    "index apart": lambda x: x.reshape(2, 2, 3)[ids(0, 1), :, ids(2, 0)],
    "index together": lambda x: x.reshape(1, 4, 3).expand(2, 4, 3)[:, ids(0, 3), ids(2, 0)],
    "slices": lambda x: (x[1:], x[:, :-1], x[-1, 1::2], x[:0]),
    "strides": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "one_hot": lambda x: F.one_hot((x > 0).long(), 3),
    "repeat_interleave": lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(3, 1), x.repeat_interleave(2)),
    "dropout": lambda x: F.dropout2d(F.dropout(x, training=False), training=False),
    "einsum": lambda x: mt.einsum("ij,kj->ik", x, x),
    "several": lambda x: (x.max(1), x.sort(1, descending=True), x.topk(2), mt.std_mean(x, 0), x.aminmax()),
    "constants": lambda x: (x + mt.arange(4, device="cpu"), x * ids(1.0, 2.0, 3.0, 4.0), x + mt.linspace(0, 1, 4, device="cpu")),
    "created": lambda x: (mt.zeros_like(x), x.new_full((2,), 3), mt.eye(3, device="cpu") + x.sum(), mt.full((2, 2), True, device="cpu")),
    "dtypes": lambda x: (x.long() // 2, x.double().exp(), (x > 0) + (x > 0.5), (x * 100).to(mt.int32) % 7, x.half() * 2),
    "masks": lambda x: (x.masked_fill(x > 0, -1.0), mt.where(x > 0, x, 0), x.tril(), (x > 0).triu(1), ~(x > 0) | (x < -0.5)),
    "stacks": lambda x: (mt.stack([x, x], 1), mt.cat([x, x * 2, x], 1), mt.hstack([x, x])),
    "parts": lambda x: (x.unbind(1), x.chunk(2, 1), x.tensor_split(3, 1)),
    "scatters": lambda x: (x.scatter(1, ids([0], [1], [2]), 5.0), x.scatter_add(0, ids([0, 1, 2, 0]), x[:1])),
    "reducing scatters": lambda x: tuple(
        x.scatter_reduce(0, ids([0, 1, 0, 2], [2, 1, 0, 0]), x[:2] * 3, reduce, include_self=own)
        for reduce in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)),
    "gathers": lambda x: (x.gather(1, ids([3, 0], [1, 1])), x.take(ids(5, 0)), x.take_along_dim(x.argsort(1), 1)),
    "running sums": lambda x: (x.cumsum(0), x.cumsum(1), (x > 0).cumsum(0)),
    "norms": lambda x: (x.norm(), x.norm(dim=1, keepdim=True), F.normalize(x), mt.linalg.vector_norm(x, 1, dim=0), x.var(0), x.std()),
    "losses": lambda x: (F.mse_loss(x, x * 2), F.smooth_l1_loss(x, -x), F.kl_div(x, x.exp())),
    "more losses": lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid()),
    "distances": lambda x: (mt.cdist(x, x + 1), F.cosine_similarity(x, x + 1), F.pairwise_distance(x, x + 1)),
    "searching": lambda x: (mt.bucketize(x, ids(-0.5, 0.0, 0.5)), mt.searchsorted(ids(-0.5, 0.0, 0.5), x, right=True)),
    "flips": lambda x: (x.flip(0), x.flip(0, 1), x.roll(1, 1), x.roll((1, -1), (0, 1)), x.rot90()),
    "outputs that are inputs": lambda x: {"same": x, "view": x.detach(), "again": x, "sum": [x.sum(), x.sum()]},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    x = rand(3, 4)
    check(FUNCTIONS[name], x)


def test_writes_of_several_kinds_run_alike_on_each_opset():
    for opset in (18, 19, 20, 21, 22):
        check(lambda x: F.gelu(written(x)) + F.gelu(x, approximate="tanh"), rand(3, 4), opset=opset)


IMAGES = {
    "nearest": lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 9)), F.interpolate(x, scale_factor=0.7),
                          F.interpolate(x, size=(5, 9), mode="nearest-exact")),
    "bilinear": lambda x: (F.interpolate(x, size=(5, 9), mode="bilinear"), F.interpolate(x, scale_factor=1.7, mode="bilinear"),
                           F.interpolate(x, size=(5, 9), mode="bilinear", align_corners=True), F.upsample_bilinear(x, (12, 13))),
    "bicubic": lambda x: (F.interpolate(x, size=(5, 9), mode="bicubic"),
                          F.interpolate(x, size=(13, 9), mode="bicubic", align_corners=True)),
    "antialias": lambda x: (F.interpolate(x, size=(3, 9), mode="bilinear", antialias=True),
                            F.interpolate(x, size=(5, 3), mode="bicubic", antialias=True)),
    "area": lambda x: F.interpolate(x, size=(4, 3), mode="area"),
    "old names": lambda x: (F.upsample(x, scale_factor=2), F.upsample_nearest(x, (4, 3))),
    "ceil_mode": lambda x: (F.max_pool2d(x, 3, 2, ceil_mode=True), F.avg_pool2d(x, 3, 2, ceil_mode=True),
                            F.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True), F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True)),
    "adaptive": lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 2)), F.adaptive_max_pool2d(x, (2, 3)),
                           F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool1d(x[0], 3)),
    "places": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "shuffles": lambda x: (F.pixel_unshuffle(x[..., :6], 2), F.pixel_shuffle(F.pixel_unshuffle(x[..., :6], 2), 2)),
    "windows": lambda x: (F.unfold(x, 3, dilation=2, padding=1, stride=2), x.unfold(2, 3, 2), F.fold(F.unfold(x, 2), (8, 9), 2)),
    "pads": lambda x: (F.pad(x, (1, 2, 0, 1)), F.pad(x, (1, 1, 2, 0), mode="reflect"), F.pad(x, (1, 2, 3, 1), mode="replicate"),
                       F.pad(x, (2, 1, 1, 2), mode="circular"), F.pad(x, (-1, -2, 1, 0), value=2.0)),
    "norms": lambda x: (F.group_norm(x, 2), F.instance_norm(x), F.layer_norm(x, (8, 9)), F.local_response_norm(x, 3), F.rms_norm(x, (9,))),
    "samples": lambda x: (F.grid_sample(x, F.affine_grid(mt.eye(2, 3, device="cpu").expand(2, 2, 3) * 1.3, x.shape, align_corners=False),
                                        align_corners=False)),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    check(IMAGES[name], rand(2, 4, 8, 9))


MODULES = {
    "lstm": (lambda m: m.LSTM(3, 5, num_layers=2, bidirectional=True, batch_first=True), (2, 4, 3)),
    "gru": (lambda m: m.GRU(3, 5), (4, 2, 3)),
    "rnn": (lambda m: m.RNN(3, 5, nonlinearity="relu"), (4, 3)),
    "lstm cell": (lambda m: m.LSTMCell(3, 5), (4, 3)),
    "attention": (lambda m: m.MultiheadAttention(8, 2), [(5, 2, 8)] * 3),
    "encoder": (lambda m: m.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "decoder": (lambda m: m.TransformerDecoderLayer(8, 2, 16), [(5, 2, 8), (6, 2, 8)]),
    "mlp": (lambda m: m.Sequential(m.Linear(6, 8), m.GELU(), m.LayerNorm(8), m.Linear(8, 2), m.LogSoftmax(-1)), (3, 6)),
    "conv1d": (lambda m: m.Sequential(m.Conv1d(3, 4, 3, padding="same"), m.BatchNorm1d(4), m.ELU(), m.AvgPool1d(2)), (2, 3, 8)),
    "conv2d": (lambda m: m.Sequential(m.Conv2d(3, 4, 3, 2, 1), m.BatchNorm2d(4), m.SiLU(), m.MaxPool2d(2), m.Flatten()), (2, 3, 9, 8)),
    "conv3d": (lambda m: m.Sequential(m.Conv3d(2, 4, 2), m.InstanceNorm3d(4), m.Mish(), m.AdaptiveAvgPool3d(1)), (2, 2, 4, 5, 4)),
    "depthwise": (lambda m: m.Sequential(m.Conv2d(4, 4, 3, groups=4, dilation=2), m.GroupNorm(2, 4), m.Hardswish()), (2, 4, 9, 8)),
    "transposed": (lambda m: m.Sequential(m.ConvTranspose2d(3, 4, 3, 2, 1, 1), m.PReLU(4), m.Upsample(scale_factor=2)), (2, 3, 4, 5)),
    "transposed1d": (lambda m: m.ConvTranspose1d(3, 4, 4, 3, 1, dilation=2), (2, 3, 5)),
    "activations": (lambda m: m.Sequential(m.LeakyReLU(), m.Softplus(2.0), m.Tanhshrink(), m.Hardsigmoid(), m.GLU()), (3, 6)),
    "exponential": (lambda m: m.Sequential(m.SELU(), m.CELU(0.5), m.ELU(1.5), m.Softmax(0), m.Softmin(1)), (3, 6)),
    "shrinking": (lambda m: m.Sequential(m.Hardshrink(0.2), m.Softshrink(0.1), m.Threshold(0.1, 0.2)), (3, 6)),
    "more": (lambda m: m.Sequential(m.ReLU6(), m.Softsign(), m.LogSigmoid(), m.Hardtanh(-2, 0.3), m.RReLU()), (3, 6)),
    "gelu": (lambda m: m.Sequential(m.GELU("tanh"), m.Tanh(), m.Sigmoid(), m.SiLU()), (3, 6)),
    "norms": (lambda m: m.Sequential(m.RMSNorm(8), m.LayerNorm((4, 8), bias=False), m.LocalResponseNorm(3), m.BatchNorm1d(4)), (3, 4, 8)),
    "pools": (lambda m: m.Sequential(m.LPPool2d(2, 2), m.AvgPool2d(3, 2, 1, ceil_mode=True), m.AdaptiveAvgPool2d((2, 3))), (2, 3, 13, 12)),
    "max pools": (lambda m: m.Sequential(m.MaxPool2d(3, 2, 1, ceil_mode=True), m.AdaptiveMaxPool2d(2)), (2, 3, 13, 12)),
    "folds": (lambda m: m.Sequential(m.Unfold(2, stride=2), m.Fold((6, 8), 2, stride=2), m.ChannelShuffle(2)), (2, 4, 6, 8)),
    "pads": (lambda m: m.Sequential(m.ZeroPad2d((1, 2, 0, 1)), m.ReplicationPad2d(2), m.CircularPad2d(1), m.ConstantPad2d(-1, 3.0)),
             (2, 3, 5, 4)),
    "upsample": (lambda m: m.Sequential(m.Upsample(scale_factor=1.5, mode="bicubic"), m.UpsamplingNearest2d((5, 4)),
                                        m.UpsamplingBilinear2d((7, 9))), (1, 2, 4, 4)),
    "embedding": (lambda m: m.Sequential(m.Flatten(0), m.Unflatten(0, (3, 2)), m.Identity(), m.Dropout()), (2, 3)),
    "weight norm": (lambda m: m.utils.parametrizations.weight_norm(m.Linear(6, 4)), (3, 6)),
    "transformer": (lambda m: m.TransformerEncoder(m.TransformerEncoderLayer(8, 2, 16, norm_first=True), 2, enable_nested_tensor=False),
                    (5, 2, 8)),
    "bilinear": (lambda m: m.Bilinear(3, 4, 5), [(2, 3), (2, 4)]),
    "resize": (lambda m: m.Sequential(m.Upsample((7, 5), mode="bilinear"), m.ReflectionPad2d(1), m.PixelShuffle(2)), (2, 4, 4, 4)),
}


def tensors(shapes):
    return [rand(*shape) for shape in (shapes if isinstance(shapes, list) else [shapes])]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    make, shapes = MODULES[name]
    check(make(nn).to("cpu").eval(), *tensors(shapes))


@pytest.mark.torch
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_what_they_are_in_pytorch(name):
    torch = importlib.import_module("torch")
    make, shapes = MODULES[name]
    torch.manual_seed(1)
    theirs, own = make(torch.nn).eval(), make(nn).to("cpu").eval()
    own.load_state_dict({key: mt.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()})
    given = tensors(shapes)
    outputs = run(exported(mt.program.trace(own, *given)), *({id(t): t for t in given}.values()))
    with torch.no_grad():
        wanted = theirs(*(torch.from_numpy(array(t).copy()) for t in given))

    def flat(value):
        return [part for item in value for part in flat(item)] if isinstance(value, tuple) else [value]

    for got, t in zip(outputs, flat(wanted), strict=True):
        assert_close(got, t.numpy())


@pytest.mark.parametrize("options", [
    {}, {"is_causal": True}, {"scale": 0.5}, {"mask": "bool"}, {"mask": "float"}, {"mask": "nothing"}, {"heads": 2, "enable_gqa": True},
])  # fmt: skip
def test_attention(options):
    options = dict(options)
    kind, heads = options.pop("mask", None), options.pop("heads", 4)
    masks = {"bool": rand(5, 6) > 0, "float": rand(2, 1, 5, 6), "nothing": mt.zeros(5, 6, dtype=mt.bool, device="cpu")}
    q, k, v = rand(2, 4, 5, 8), rand(2, heads, 6, 8), rand(2, heads, 6, 7)
    if kind is None:
        check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options), q, k, v)
    else:
        check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, **options), q, k, v, masks[kind])
