"""Calls of layers: shapes on meta, values compared with PyTorch's, and rejected inputs."""

import pytest

import metatensor as mt
from metatensor import nn

# layer, shapes of the inputs (a shape may be followed by a dtype); the calls work in both libraries
FORWARD = [
    ("Identity()", (2, 3)),
    ("Linear(3, 4)", (2, 5, 3)),
    ("Linear(3, 4, bias=False)", (3,)),
    ("Bilinear(2, 3, 4)", (5, 2), (5, 3)),
    ("Conv1d(2, 4, 3, padding=1)", (2, 2, 9)),
    ("Conv1d(2, 4, 3, padding='same', dilation=2)", (2, 9)),
    ("Conv2d(4, 8, 3, stride=2, groups=2)", (2, 4, 9, 8)),
    ("Conv2d(4, 8, 3, padding=(1, 2), padding_mode='circular')", (2, 4, 9, 8)),
    ("Conv2d(2, 2, 3, padding='same', padding_mode='reflect')", (2, 2, 9, 8)),
    ("Conv3d(1, 2, 2)", (1, 1, 4, 5, 6)),
    ("ConvTranspose1d(3, 6, 3, stride=2, padding=1, output_padding=1)", (2, 3, 5)),
    ("ConvTranspose2d(4, 6, 3, stride=2, groups=2)", (2, 4, 5, 6)),
    ("ConvTranspose3d(1, 2, 2)", (1, 1, 3, 3, 3)),
    ("BatchNorm1d(3)", (4, 3)),
    ("BatchNorm1d(3, affine=False)", (4, 3, 5)),
    ("BatchNorm2d(3, momentum=None)", (4, 3, 5, 6)),
    ("BatchNorm3d(3, track_running_stats=False)", (4, 3, 2, 3, 2)),
    ("InstanceNorm1d(3, affine=True)", (3, 5)),
    ("InstanceNorm2d(3, track_running_stats=True)", (4, 3, 5, 6)),
    ("InstanceNorm3d(3)", (2, 3, 2, 3, 2)),
    ("LayerNorm((3, 4))", (2, 3, 4)),
    ("RMSNorm(4)", (2, 3, 4)),
    ("GroupNorm(2, 4)", (3, 4, 5)),
    ("LocalResponseNorm(3)", (2, 4, 5)),
    ("Threshold(0.1, 2.0)", (2, 3)),
    ("ReLU()", (2, 3)),
    ("ReLU(inplace=True)", (2, 3)),
    ("Hardtanh()", (2, 3)),
    ("ReLU6()", (2, 3)),
    ("Sigmoid()", (2, 3)),
    ("Hardsigmoid()", (2, 3)),
    ("Tanh()", (2, 3)),
    ("SiLU()", (2, 3)),
    ("Mish()", (2, 3)),
    ("Hardswish()", (2, 3)),
    ("ELU(0.5)", (2, 3)),
    ("CELU(0.5)", (2, 3)),
    ("SELU()", (2, 3)),
    ("GLU()", (2, 4)),
    ("GELU()", (2, 3)),
    ("GELU('tanh')", (2, 3)),
    ("Hardshrink()", (2, 3)),
    ("LeakyReLU()", (2, 3)),
    ("LogSigmoid()", (2, 3)),
    ("Softplus()", (2, 3)),
    ("Softshrink()", (2, 3)),
    ("PReLU(3)", (2, 3, 4)),
    ("Softsign()", (2, 3)),
    ("Tanhshrink()", (2, 3)),
    ("Softmin(1)", (2, 3)),
    ("Softmax(-1)", (2, 3)),
    ("Softmax2d()", (2, 3, 4, 5)),
    ("LogSoftmax(0)", (2, 3)),
    ("RReLU().eval()", (2, 3)),
    ("Dropout().eval()", (2, 3)),
    ("Dropout1d().eval()", (2, 3, 4)),
    ("Dropout2d().eval()", (2, 3, 4, 4)),
    ("Dropout3d().eval()", (2, 3, 4, 4, 2)),
    ("AlphaDropout().eval()", (2, 3)),
    ("FeatureAlphaDropout().eval()", (2, 3, 4)),
    ("Embedding(10, 3, padding_idx=0)", (2, 5, "int64")),
    ("EmbeddingBag(10, 3, mode='sum')", (2, 5, "int64")),
    ("MaxPool1d(3)", (2, 3, 9)),
    ("MaxPool2d(3, 2, 1, ceil_mode=True)", (2, 3, 9, 8)),
    ("MaxPool3d(2)", (1, 2, 4, 4, 5)),
    ("AvgPool1d(3)", (2, 3, 9)),
    ("AvgPool2d(3, 2, 1, count_include_pad=False)", (2, 3, 9, 8)),
    ("AvgPool3d(2)", (1, 2, 4, 4, 5)),
    ("LPPool1d(2, 3)", (2, 3, 9)),
    ("LPPool2d(2, 3)", (2, 3, 9, 9)),
    ("AdaptiveAvgPool1d(4)", (2, 3, 9)),
    ("AdaptiveAvgPool2d((None, 3))", (2, 3, 9, 8)),
    ("AdaptiveAvgPool3d(2)", (2, 3, 5, 4, 4)),
    ("AdaptiveMaxPool1d(4)", (2, 3, 9)),
    ("AdaptiveMaxPool2d(3)", (2, 3, 9, 8)),
    ("AdaptiveMaxPool3d(2)", (2, 3, 5, 4, 4)),
    ("Flatten()", (2, 3, 4)),
    ("Unflatten(1, (2, 3))", (2, 6)),
    ("ConstantPad1d((1, 2), 3.0)", (2, 3, 4)),
    ("ReflectionPad2d(1)", (2, 3, 4, 5)),
    ("ReplicationPad3d(1)", (1, 2, 2, 2, 3)),
    ("ZeroPad2d((1, 0, -1, 2))", (2, 3, 4, 5)),
    ("CircularPad1d(2)", (2, 3, 4)),
    ("Upsample(scale_factor=2)", (2, 3, 4)),
    ("Upsample(size=(3, 7), mode='bilinear')", (2, 3, 4, 4)),
    ("UpsamplingBilinear2d(scale_factor=2)", (2, 3, 4, 4)),
    ("PixelShuffle(2)", (2, 8, 3, 3)),
    ("PixelUnshuffle(2)", (2, 3, 4, 6)),
    ("ChannelShuffle(2)", (2, 4, 3)),
    ("Unfold(2)", (2, 3, 4, 5)),
    ("Fold((4, 5), 2)", (2, 12, 12)),
    ("CosineSimilarity()", (2, 3), (2, 3)),
    ("PairwiseDistance()", (2, 3), (2, 3)),
    ("L1Loss()", (2, 3), (2, 3)),
    ("MSELoss(reduction='sum')", (2, 3), (2, 3)),
    ("SmoothL1Loss(reduction='none')", (2, 3), (2, 3)),
    ("HuberLoss()", (2, 3), (2, 3)),
    ("CrossEntropyLoss(label_smoothing=0.1)", (4, 8), (4, "int64")),
    ("NLLLoss()", (4, 8), (4, "int64")),
    ("BCEWithLogitsLoss()", (2, 3), (2, 3)),
    ("KLDivLoss(reduction='batchmean', log_target=True)", (2, 3), (2, 3)),
    ("MultiheadAttention(8, 2)", (5, 2, 8), (6, 2, 8), (6, 2, 8)),
    ("MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)", (2, 5, 8), (2, 6, 8), (2, 6, 8)),
    ("MultiheadAttention(8, 4, kdim=3, vdim=5)", (5, 8), (6, 3), (6, 5)),
    ("AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0)", (7, 16), (7, "int64")),
    ("AdaptiveLogSoftmaxWithLoss(8, 9, [3], head_bias=True)", (8,), ("int64",)),
    ("CrossMapLRN2d(3, k=2)", (2, 7, 3, 2)),
    ("CrossMapLRN2d(4, alpha=0.5)", (2, 6, 3, 2)),
    ("CrossMapLRN2d(9, alpha=0.5)", (2, 3, 3, 2)),
    ("SyncBatchNorm(3)", (4, 3)),
    ("SyncBatchNorm(3, momentum=None)", (4, 3, 5, 6)),
    ("LinearCrossEntropyLoss(4, 8)", (5, 4), (5, "int64")),
    ("LinearCrossEntropyLoss(4, 8, out_features=(2, 3), bias=True, ignore_index=1)", (5, 4), (5, 2, 3, "int64")),
    ("TripletMarginLoss(swap=True)", (4, 5), (4, 5), (4, 5)),
    ("TripletMarginWithDistanceLoss()", (4, 5), (4, 5), (4, 5)),
    ("RNN(3, 4)", (5, 2, 3)),
    ("RNN(3, 4, 2, nonlinearity='relu', batch_first=True)", (2, 5, 3), (2, 2, 4)),
    ("LSTM(3, 4)", (5, 3)),
    ("LSTM(3, 4, 2, bidirectional=True, batch_first=True)", (2, 5, 3)),
    ("LSTM(3, 4, 2, bias=False, proj_size=2)", (5, 2, 3), [(2, 2, 2), (2, 2, 4)]),
    ("LSTM(3, 4)", (5, 3), [(1, 4), (1, 4)]),
    ("GRU(3, 4, bidirectional=True)", (5, 3), (2, 4)),
    ("GRU(3, 4, 3, batch_first=True, dropout=0.5).eval()", (2, 5, 3)),
    ("RNNCell(3, 4)", (2, 3)),
    ("RNNCell(3, 4, nonlinearity='relu')", (3,), (4,)),
    ("LSTMCell(3, 4, bias=False)", (2, 3)),
    ("LSTMCell(3, 4)", (3,), [(4,), (4,)]),
    ("GRUCell(3, 4)", (2, 3), (2, 4)),
    ("TransformerEncoderLayer(8, 2, 16).eval()", (5, 2, 8)),
    ("TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', batch_first=True, norm_first=True)", (2, 5, 8)),
    ("TransformerEncoderLayer(8, 1, 16, 0.0, bias=False)", (5, 8)),
    ("TransformerDecoderLayer(8, 2, 16).eval()", (5, 2, 8), (4, 2, 8)),
    ("TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True, batch_first=True)", (2, 5, 8), (2, 4, 8)),
    ("TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2).eval()", (5, 2, 8)),
    ("TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 1, nn.LayerNorm(8))", (5, 8)),
    ("TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, nn.LayerNorm(8)).eval()", (5, 2, 8), (4, 2, 8)),
    ("BCELoss()", (2, 3, "chance"), (2, 3, "chance")),
    ("BCELoss(reduction='none')", (4, "chance"), (4, "chance")),
    ("BCEWithLogitsLoss(reduction='sum')", (2, 3), (2, 3, "chance")),
    ("PoissonNLLLoss()", (2, 3), (2, 3, "chance")),
    ("PoissonNLLLoss(log_input=False, full=True, reduction='sum')", (2, 3, "chance"), (2, 3, "chance")),
    ("GaussianNLLLoss(full=True)", (2, 3), (2, 3), (2, 3, "chance")),
    ("GaussianNLLLoss(reduction='none')", (2, 3), (2, 3), (2, 1, "chance")),
    ("SoftMarginLoss()", (2, 3), (2, 3, "sign")),
    ("HingeEmbeddingLoss(margin=0.5)", (2, 3), (2, 3, "sign")),
    ("MarginRankingLoss(0.5, reduction='none')", (4,), (4,), (4, "sign")),
    ("CosineEmbeddingLoss(0.2)", (4, 3), (4, 3), (4, "sign")),
    ("CosineEmbeddingLoss(reduction='none')", (3,), (3,), ("sign",)),
    ("MultiLabelMarginLoss()", (4, 8), (4, 8, "int64")),
    ("MultiLabelSoftMarginLoss()", (4, 3), (4, 3, "chance")),
    ("MultiMarginLoss(2, 0.5)", (4, 8), (4, "int64")),
    ("NLLLoss(ignore_index=2, reduction='sum')", (4, 8, 3), (4, 3, "int64")),
    ("NLLLoss2d(reduction='none')", (4, 8, 3, 2), (4, 3, 2, "int64")),
    ("CrossEntropyLoss(reduction='none')", (4, 8, 3), (4, 8, 3)),
    ("KLDivLoss(reduction='sum')", (2, 3), (2, 3, "chance")),
    ("Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))", (5, 3)),
    ("Container(a=nn.ReLU()).a", (5, 3)),
    ("DataParallel(nn.Linear(3, 4))", (5, 3)),
    ("ConstantPad2d((1, 0, -1, 2), 0.5)", (2, 3, 4, 5)),
    ("ConstantPad3d(1, 2.0)", (2, 2, 3, 2)),
    ("ReflectionPad1d((1, 2))", (2, 3, 4)),
    ("ReflectionPad3d(1)", (1, 2, 2, 2, 3)),
    ("ReplicationPad1d((1, 2))", (3, 4)),
    ("ReplicationPad2d((1, 0, 2, 3))", (2, 3, 4, 5)),
    ("ZeroPad1d(1)", (2, 3, 4)),
    ("ZeroPad3d((1, 2, 0, 1, 1, 0))", (2, 3, 4, 5, 2)),
    ("CircularPad2d((1, 2, 0, 1))", (2, 3, 4, 5)),
    ("CircularPad3d(1)", (1, 2, 2, 2, 3)),
    ("LPPool3d(2, 3)", (2, 3, 9, 9, 6)),
    ("MaxPool1d(2, return_indices=True)", (2, 3, 9)),
    ("MaxPool2d((3, 2), 2, 1, 1, True, True)", (2, 3, 9, 8)),
    ("UpsamplingNearest2d(scale_factor=(2, 3))", (2, 3, 4, 4)),
    ("Embedding(10, 3, max_norm=0.5)", (2, 5, "int64")),
    ("EmbeddingBag(10, 3, mode='max')", (2, 5, "int64")),
    ("FractionalMaxPool2d(3, output_ratio=0.5, _random_samples=lib.full((2, 3, 2), 0.3))", (2, 3, 9, 9)),
    ("FractionalMaxPool3d(2, output_size=3, _random_samples=lib.full((2, 3, 3), 0.3))", (2, 3, 6, 6, 6)),
    ("MaxUnpool1d(2)", (2, 3, 4), (2, 3, 4, "int64")),
    ("MaxUnpool2d(2, 2, 0)", (2, 3, 4, 4), (2, 3, 4, 4, "int64")),
    ("MaxUnpool3d(2)", (2, 3, 2, 2, 2), (2, 3, 2, 2, 2, "int64")),
    ("Transformer(8, 2, 1, 2, 16).eval()", (5, 2, 8), (4, 2, 8)),
    ("Transformer(8, 2, 2, 1, 16, 0.0, 'gelu', batch_first=True, norm_first=True)", (2, 5, 8), (2, 4, 8)),
]
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning", "ignore:enable_nested", "ignore:LSTM with projections")
CASES = [pytest.param(call, shapes, id=call) for call, *shapes in FORWARD]


def tensors(result):
    """Yield the tensors of a result, in order, including those in nested tuples."""
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors(part)]
    return [] if result is None else [result]


def inputs_of(shapes, make):
    """Return ``make(shape, kind)`` for each shape. A list of shapes stands for a tuple of inputs."""
    made = []
    for shape in shapes:
        if isinstance(shape, list):
            made.append(tuple(inputs_of(shape, make)))
        else:
            kind = shape[-1] if shape and isinstance(shape[-1], str) else "normal"
            made.append(make([n for n in shape if not isinstance(n, str)], kind))
    return made


def ours_of(value):
    """Convert PyTorch tensors, or tuples of them, to metatensor."""
    if isinstance(value, tuple):
        return tuple(map(ours_of, value))
    return mt.tensor(value.tolist(), dtype=getattr(mt, str(value.dtype)[6:]))


@pytest.mark.torch
@pytest.mark.parametrize("call, shapes", CASES)
def test_shapes_like_torch(call, shapes):
    torch = pytest.importorskip("torch")

    def run(lib):
        layer = eval(f"nn.{call}", {"lib": lib, "nn": lib.nn})
        inputs = inputs_of(shapes, lambda shape, kind: lib.zeros(shape, dtype=lib.int64 if kind == "int64" else lib.float32))
        return [(tuple(t.shape), str(t.dtype).split(".")[1], tuple(t.stride())) for t in tensors(layer(*inputs))]

    mt.set_default_device("meta")
    ours = run(mt)
    with torch.device("meta"):
        try:
            theirs = run(torch)
        except RuntimeError:  # the layer reads values
            with torch.device("cpu"):
                theirs = run(torch)
    assert [o[:2] for o in ours] == [t[:2] for t in theirs]
    assert ours == theirs


@pytest.mark.torch
@pytest.mark.parametrize("call, shapes", CASES)
def test_values_like_torch(call, shapes):
    """With the same weights and inputs, outputs and buffers are the same."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("metatensor_cpu")
    torch.manual_seed(0)
    theirs, ours = (eval(f"nn.{call}", {"lib": lib, "nn": lib.nn}) for lib in (torch, mt))
    state = {k: mt.tensor(v.tolist(), dtype=getattr(mt, str(v.dtype)[6:])) for k, v in theirs.state_dict().items()}
    ours.load_state_dict(state)
    draw = {
        "normal": torch.randn,
        "chance": torch.rand,
        "int64": lambda shape: torch.randint(0, 8, shape),
        "sign": lambda shape: torch.randint(0, 2, shape) * 2.0 - 1,
    }
    inputs = inputs_of(shapes, lambda shape, kind: draw[kind](shape))
    got = ours(*map(ours_of, inputs))
    want = theirs(*inputs)
    for g, w in zip(tensors(got), tensors(want), strict=True):
        torch.testing.assert_close(torch.tensor(g.tolist(), dtype=w.dtype), w.detach(), atol=1e-5, rtol=1e-4, equal_nan=True)
    for name, buffer in theirs.named_buffers():
        g = torch.tensor(ours.get_buffer(name).tolist(), dtype=buffer.dtype)
        torch.testing.assert_close(g, buffer, atol=1e-5, rtol=1e-4)


def on_meta(*shape):
    return mt.empty(shape, device="meta")


@pytest.mark.parametrize(
    "error, words, make",
    [
        (ValueError, "in1_features must be positive", lambda: nn.Bilinear(0, 1, 1)),
        (ValueError, "groups must be positive", lambda: nn.Conv1d(2, 2, 1, groups=0)),
        (ValueError, "in_channels=3 is not divisible", lambda: nn.Conv2d(3, 2, 1, groups=2)),
        (ValueError, "out_channels=3 is not divisible", lambda: nn.Conv3d(2, 3, 1, groups=2)),
        (ValueError, "'same', 'valid' or sizes", lambda: nn.Conv1d(1, 1, 1, padding="some")),
        (ValueError, "needs stride 1", lambda: nn.Conv1d(1, 1, 1, stride=2, padding="same")),
        (ValueError, "padding_mode must be one of", lambda: nn.Conv1d(1, 1, 1, padding_mode="ones")),
        (ValueError, "padding_mode must be 'zeros'", lambda: nn.ConvTranspose1d(1, 1, 1, padding_mode="circular")),
        (ValueError, "num_channels=3 is not divisible", lambda: nn.GroupNorm(2, 3)),
        (ValueError, "between 0 and 1, not 1.5", lambda: nn.Dropout(1.5)),
        (ValueError, "between 0 and 1", lambda: nn.AlphaDropout(-0.1)),
        (AssertionError, "padding_idx=3 is not a row", lambda: nn.Embedding(3, 1, padding_idx=3)),
        (AssertionError, "given weight has shape", lambda: nn.Embedding(3, 1, _weight=on_meta(2, 1))),
        (AssertionError, "expected 2 dimensions", lambda: nn.Embedding.from_pretrained(on_meta(2))),
        (AssertionError, "padding_idx=7 is not a row", lambda: nn.EmbeddingBag(5, 3, padding_idx=7)),
        (AssertionError, "expected 2 dimensions", lambda: nn.EmbeddingBag.from_pretrained(on_meta(2))),
        (IndexError, "out of", lambda: nn.LSTM(5, 3, device="meta")(on_meta(4, 2, 5), on_meta(1, 2, 3))),
        (AssertionError, "must be less than", lambda: nn.Hardtanh(1, 1)),
        (ValueError, "p must be 1 or 2", lambda: nn.MultiMarginLoss(p=3)),
        (ValueError, "margin must be positive", lambda: nn.TripletMarginLoss(margin=0)),
        (ValueError, "exactly one of", lambda: nn.FractionalMaxPool2d(2)),
        (ValueError, "between 0 and 1", lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5)),
        (ValueError, "must both be positive", lambda: nn.MultiheadAttention(0, 1)),
        (AssertionError, "not divisible by num_heads", lambda: nn.MultiheadAttention(5, 2)),
        (TypeError, "dim must be an int", lambda: nn.Unflatten("a", (1, 2))),
        (TypeError, "tuple of ints", lambda: nn.Unflatten(1, (1, "a"))),
        (ValueError, "2 or 3 dimensions", lambda: nn.BatchNorm1d(2)(on_meta(1, 2, 3, 4))),
        (ValueError, "4 dimensions", lambda: nn.BatchNorm2d(2)(on_meta(2, 2))),
        (ValueError, "4 or 5 dimensions", lambda: nn.InstanceNorm3d(2)(on_meta(2, 2))),
        (ValueError, "expected 2 channels", lambda: nn.InstanceNorm1d(2, affine=True)(on_meta(1, 3, 4))),
        (ValueError, "3 or 4 dimensions", lambda: nn.Softmax2d()(on_meta(2))),
        (ValueError, "is not between", lambda: nn.ConvTranspose1d(1, 1, 3, 2)(on_meta(1, 1, 4), output_size=[12])),
        (ValueError, "3 or 4 dimensions", lambda: nn.CircularPad2d(1)(on_meta(1, 1, 2, 3, 4))),
        (ValueError, "expected 4 dimensions", lambda: nn.CrossMapLRN2d(1)(on_meta(1, 1, 2))),
        (ValueError, "at least one cutoff", lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [])),
        (ValueError, "must be unique increasing integers", lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2])),
        (RuntimeError, r"got shapes \[2, 4\] and \[3\]", lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(on_meta(2, 4), on_meta(3))),
        (RuntimeError, "weight must have shape", lambda: nn.LinearCrossEntropyLoss(2, 3, weight=on_meta(2))),
        (RuntimeError, "label_smoothing must lie", lambda: nn.LinearCrossEntropyLoss(2, 3, label_smoothing=2.0)),
        (ValueError, "acc_policy must be", lambda: nn.LinearCrossEntropyOptions(acc_policy="exact")),
        (ValueError, "chunking_method must be", lambda: nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:0")),
        (ValueError, "batch_chunk_size must be", lambda: nn.LinearCrossEntropyOptions(batch_chunk_size=0)),
        (ValueError, "acc_dtype must be", lambda: nn.LinearCrossEntropyOptions(acc_dtype=mt.int32)),
        (RuntimeError, "activation must be", lambda: nn.TransformerEncoderLayer(4, 2, activation="tanh")),
        (AssertionError, "src_mask must be bool", lambda: nn.TransformerEncoderLayer(4, 2)(on_meta(3, 4), on_meta(3, 3).int())),
        (RuntimeError, "must have the same batch size", lambda: nn.Transformer(4, 2, 1, 1, 4)(on_meta(3, 1, 4), on_meta(3, 2, 4))),
        (RuntimeError, "the last dimension must be", lambda: nn.Transformer(4, 2, 1, 1, 4)(on_meta(3, 1, 4), on_meta(3, 1, 5))),
        (ValueError, "must have 1 or 3", lambda: nn.ConvTranspose1d(1, 1, 3)(on_meta(1, 1, 4), output_size=[1, 2])),
    ],
)
def test_refusals(error, words, make):
    mt.set_default_device("meta")
    with pytest.raises(error, match=words):
        make()


def test_output_size_of_a_transposed_convolution():
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2, device="meta")
    assert layer(on_meta(1, 1, 4, 4)).shape == (1, 1, 9, 9)
    assert layer(on_meta(1, 1, 4, 4), output_size=[10, 9]).shape == (1, 1, 10, 9)
    assert layer(on_meta(1, 1, 4, 4), output_size=[1, 1, 10, 10]).shape == (1, 1, 10, 10)


def test_devices_and_dtypes_of_layers():
    layer = nn.Conv2d(1, 1, 1, device="meta", dtype=mt.float64)
    assert layer.weight.is_meta and layer.bias.dtype == mt.float64
    norm = nn.BatchNorm2d(3, device="meta", dtype=mt.float16)
    assert norm.running_mean.dtype == norm.weight.dtype == mt.float16 and norm.num_batches_tracked.dtype == mt.int64
    with mt.device("meta"):
        assert nn.Embedding(3, 4).weight.is_meta
    mt.set_default_dtype(mt.float64)
    assert nn.LayerNorm(3, device="meta").weight.dtype == mt.float64


def test_from_pretrained():
    table = on_meta(5, 3)
    frozen = nn.Embedding.from_pretrained(table, padding_idx=1)
    assert not frozen.weight.requires_grad and frozen.padding_idx == 1 and frozen.embedding_dim == 3
    assert frozen.weight.untyped_storage()._cdata == table.untyped_storage()._cdata
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    bag = nn.EmbeddingBag.from_pretrained(table, mode="max")
    assert bag.mode == "max" and not bag.weight.requires_grad


def test_max_unpool():
    pool = nn.MaxPool2d(2, return_indices=True)
    values, indices = pool(on_meta(1, 2, 6, 6))
    assert indices.dtype == mt.int64
    assert nn.MaxUnpool2d(2)(values, indices).shape == (1, 2, 6, 6)


def test_the_padding_row_is_zero(device):
    layer = nn.Embedding(4, 2, padding_idx=-1, device=device)
    assert layer.padding_idx == 3 and layer.weight.tolist()[3] == [0.0, 0.0] and layer.weight.requires_grad


def test_reset_running_stats(device):
    norm = nn.BatchNorm1d(2, device=device)
    norm(mt.ones(3, 2, device=device))
    assert norm.num_batches_tracked.item() == 1
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0.0, 0.0] and norm.num_batches_tracked.item() == 0


def test_old_reduction_arguments():
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert nn.L1Loss(reduce=False).reduction == "none"


def test_old_hardtanh_arguments():
    with pytest.warns(FutureWarning, match="min_val"):
        assert nn.Hardtanh(min_value=-3.0).min_val == -3.0
