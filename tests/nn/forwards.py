"""Calls of layers that work in every library, by class: constructor calls, and inputs.

In an input, a tuple of sizes stands for a tensor of normal numbers, ``I(high, *sizes)`` for integers, ``P(*sizes)`` for
numbers in (0, 1), and ``S(*sizes)`` for 1 and -1. A list is a tuple of inputs. ``V(value)``, None and bools are passed
as they are. A dict at the end holds keyword arguments.
"""

from collections import namedtuple

I = namedtuple("I", "high sizes")
P = namedtuple("P", "sizes")
S = namedtuple("S", "sizes")  # signs: 1 or -1
V = namedtuple("V", "value")


def i(high, *sizes):
    return I(high, sizes)


def p(*sizes):
    return P(sizes)


def s(*sizes):
    return S(sizes)


def each(calls, *inputs):
    """Combine all calls with all inputs, each as the only argument."""
    return [(call, [x]) for call in calls for x in inputs]


def losses(calls, *inputs):
    """Combine all calls with the same inputs, for each reduction."""
    return [(call.replace(")", f"{', ' if call != '()' else ''}reduction={r!r})"), list(inputs))
            for call in calls for r in ("mean", "sum", "none")]  # fmt: skip


ACTIVATIONS = {
    "Identity": ["()"], "ReLU": ["()", "(inplace=True)"], "ReLU6": ["()", "(True)"], "Sigmoid": ["()"], "Tanh": ["()"],
    "Hardsigmoid": ["()", "(True)"], "Hardtanh": ["()", "(-2, 0.5)", "(-0.1, 0.1, True)"], "SiLU": ["()", "(True)"],
    "Mish": ["()", "(True)"],
    "Hardswish": ["()", "(True)"], "ELU": ["()", "(0.5)", "(2, True)"], "CELU": ["()", "(0.5, True)"], "SELU": ["()", "(True)"],
    "GELU": ["()", "('tanh')"], "Hardshrink": ["()", "(0.3)"], "LeakyReLU": ["()", "(0.2, True)"], "LogSigmoid": ["()"],
    "Softplus": ["()", "(2, 1)"], "Softshrink": ["()", "(0.1)"], "Softsign": ["()"], "Tanhshrink": ["()"],
    "Threshold": ["(0.1, 2)", "(0.1, 2, True)"], "RReLU": ["()", "(0.2, 0.2)"],
}  # fmt: skip
SHAPED = {
    "GLU": each(["()", "(1)", "(-2)"], (2, 4, 6), (4, 2)) + each(["(0)"], (4, 3)),
    "PReLU": each(["()"], (2, 3, 4), (5,)) + each(["(3)", "(3, init=0.5)"], (2, 3, 4)),
    "Softmin": each(["()", "(1)", "(-1)"], (2, 3), (2, 3, 4)),
    "Softmax": each(["()", "(1)", "(-1)"], (2, 3), (2, 3, 4)),
    "LogSoftmax": each(["()", "(0)", "(-1)"], (2, 3), (2, 3, 4)),
    "Softmax2d": each(["()"], (2, 3, 4, 5), (3, 4, 5)),
    "Linear": each(["(4, 5)", "(4, 5, bias=False)"], (4,), (3, 4), (2, 3, 4), (0, 4)),
    "Bilinear": [("(3, 4, 5)", [(2, 3), (2, 4)]), ("(3, 4, 5, bias=False)", [(2, 6, 3), (2, 6, 4)])],
    "Flatten": each(["()", "(0)", "(1, 2)", "(-2, -1)"], (2, 3, 4, 5)),
    "Unflatten": each(["(1, (2, 3))", "(-1, (3, -1))"], (4, 6)),
    "Embedding": each(["(10, 3)", "(10, 3, padding_idx=2)", "(10, 3, max_norm=0.5)"], i(10, 4), i(10, 2, 3), i(10)),
    "CrossMapLRN2d": each(["(3)", "(2, 0.1, 0.5, 2.0)"], (2, 5, 3, 4)),
    "LocalResponseNorm": each(["(3)", "(2, 0.1, 0.5, 2.0)"], (2, 5, 3, 4), (2, 5, 3), (2, 5, 3, 4, 2)),
    "LayerNorm": each(["(4)", "((3, 4), eps=1e-3)", "((3, 4), bias=False)", "(4, elementwise_affine=False)"], (2, 3, 4), (3, 4)),
    "RMSNorm": each(["(4)", "((3, 4), eps=1e-3)", "(4, elementwise_affine=False)"], (2, 3, 4), (3, 4)),
    "GroupNorm": each(["(2, 4)", "(4, 4, 1e-3)", "(1, 4, affine=False)", "(2, 4, bias=False)"], (2, 4), (2, 4, 3), (2, 4, 3, 2)),
    "Fold": [("((4, 5), 2)", [(2, 12, 12)]), ("((4, 5), (2, 3), 1, 1, 2)", [(2, 12, 9)])],
    "Unfold": each(["(2)", "((2, 3), 1, 1, 2)"], (2, 3, 5, 6), (3, 5, 6)),
    "PixelShuffle": each(["(2)"], (2, 8, 3, 4), (8, 3, 4)),
    "PixelUnshuffle": each(["(2)"], (2, 3, 4, 6), (3, 4, 6)),
    "ChannelShuffle": each(["(2)"], (2, 4, 3, 5), (1, 6, 3, 5)),
    "CosineSimilarity": [("()", [(3, 4), (3, 4)]), ("(0, 1e-3)", [(3, 4), (3, 4)]), ("(-1)", [(2, 3, 4), (4,)])],
    "PairwiseDistance": [("()", [(3, 4), (3, 4)]), ("(1.0, keepdim=True)", [(3, 4), (4,)]), ("(3)", [(4,), (4,)])],
    "Dropout": each(["()", "(0.1, True)", "(0.0)"], (3, 4)),
    "Dropout1d": each(["()", "(0.0)"], (2, 3, 4), (3, 4)),
    "Dropout2d": each(["()", "(0.0)"], (2, 3, 4, 5), (3, 4, 5)),
    "Dropout3d": each(["()", "(0.0)"], (2, 3, 4, 5, 2), (3, 4, 5, 2)),
    "AlphaDropout": each(["(0.2)", "(0.0)"], (3, 4)),
    "FeatureAlphaDropout": each(["(0.2)", "(0.0)"], (2, 3, 4)),
    "EmbeddingBag": [
        ("(10, 3)", [i(10, 2, 4)]), ("(10, 3, mode='sum', padding_idx=1)", [i(10, 2, 4)]), ("(10, 3, mode='max')",
        [i(10, 2, 4)]), ("(10, 3, mode='sum')", [i(10, 2, 4), None, p(2, 4)]), ("(10, 3, max_norm=0.5)", [i(10, 2, 4)]),
    ],
    "AdaptiveLogSoftmaxWithLoss": [
        ("(8, 20, [5, 10, 15], div_value=2.0)", [(3, 8), i(20, 3)]),
        ("(8, 6, (2,), head_bias=True)", [(8,), i(6)]),
    ],
    "LinearCrossEntropyLoss": [
        ("(4, 5)", [(3, 4), i(5, 3)]), ("(4, 5, bias=True, ignore_index=1, label_smoothing=0.1)", [(3, 4), i(5, 3)]),
        ("(4, 5, reduction='none')", [(3, 4), i(5, 3)]), ("(4, 5, reduction='sum')", [(4,), i(5)]),
    ],
}  # fmt: skip


def of_dimensions():
    """Return the layers that exist for several numbers of dimensions."""
    found = {}
    spatial = {1: (7,), 2: (7, 6), 3: (6, 5, 4)}
    for d, size in spatial.items():
        x, y = (2, 4, *size), (4, *size)
        n = f"{d}d"
        found[f"Conv{n}"] = each(
            ["(4, 6, 3)", "(4, 6, 2, stride=2, padding=1, bias=False)", "(4, 8, 3, padding='same', groups=2)",
             "(4, 2, 2, padding='valid', dilation=2)", "(4, 3, 3, padding=1, padding_mode='reflect')",
             "(4, 3, 3, padding='same', padding_mode='circular')", "(4, 3, 3, padding=1, padding_mode='replicate', dilation=1)"], x, y)
        found[f"ConvTranspose{n}"] = each(
            ["(4, 6, 3)", "(4, 6, 3, stride=2, padding=1, output_padding=1, bias=False)", "(4, 6, 2, groups=2, dilation=2)"], x, y)
        found[f"ConvTranspose{n}"].append(("(4, 6, 3, stride=2)", [x, {"output_size": V([2 * n + 2 for n in size])}]))
        norms = ["(4)", "(4, 1e-3, 0.2)", "(4, affine=False)", "(4, track_running_stats=False)", "(4, momentum=None)", "(4, bias=False)"]
        found[f"BatchNorm{n}"] = each(norms, x, *([(3, 4)] if d == 1 else []))
        found[f"InstanceNorm{n}"] = each(["(4)", "(4, affine=True)", "(4, track_running_stats=True)", "(4, 1e-3, 0.5, True, True)"], x, y)
        pools = ["(2)", "(3, 2, 1)", f"({(2,) * d}, stride=1, ceil_mode=True)"]
        found[f"AvgPool{n}"] = each([*pools, "(3, 2, 1, count_include_pad=False)"], x, y)
        found[f"MaxPool{n}"] = each([*pools, "(2, dilation=2)", "(2, return_indices=True)"], x, y)
        found[f"LPPool{n}"] = each(["(2, 2)", "(1.5, 2, 1)", "(2, 3, ceil_mode=True)"], x, y)
        outputs = ["(3)", f"({(2,) * d if d > 1 else 2})", f"({(None,) + (2,) * (d - 1) if d > 1 else 1})"]
        found[f"AdaptiveAvgPool{n}"] = each(outputs, x, y)
        found[f"AdaptiveMaxPool{n}"] = each([*outputs, "(2, return_indices=True)"], x, y)
        for kind in ("Reflection", "Replication", "Circular", "Zero"):
            found[f"{kind}Pad{n}"] = each(["(1)", f"({(1, 2, 0, 1, 2, 1)[: 2 * d]})"], x, y)
        found[f"ConstantPad{n}"] = each(["(1, 3.5)", f"({(1, 2, 0, 1, -1, 1)[: 2 * d]}, 0)"], x, y)
        found[f"MaxUnpool{n}"] = [("(2)", ["unpool", d]), ("(2, 2)", ["unpool", d])]
        for kind in ("Batch", "Instance"):
            found[f"Lazy{kind}Norm{n}"] = each(["()", "(1e-3, 0.2)", "(affine=False)"], x)
        found[f"LazyConv{n}"] = each(["(6, 3)", "(6, 3, padding=1, groups=2, bias=False)"], x)
        found[f"LazyConvTranspose{n}"] = each(["(6, 3)", "(6, 3, stride=2, output_padding=1, bias=False)"], x)
    found["LazyLinear"] = each(["(3)", "(3, bias=False)"], (2, 4), (4,))
    found["SyncBatchNorm"] = [(call, [x, {"eval": True}]) for call in ("(4)", "(4, affine=False)") for x in ((2, 4, 7, 6), (2, 4))]
    for d in (2, 3):
        size = spatial[d]
        found[f"FractionalMaxPool{d}d"] = each(
            [f"(2, output_size={(3,) * d})", "(2, output_ratio=0.5)",
             f"(2, output_size={(3,) * d}, return_indices=True)"], (2, 4, *(8, 7, 6)[:d]))
    found["Upsample"] = [
        *each(["(scale_factor=2)", "(size=5)", "(scale_factor=2, mode='linear')"], (2, 3, 4)),
        *each(["(size=(3, 4), mode='bilinear', align_corners=True)", "(scale_factor=(2, 1.5), mode='bicubic')",
               "(scale_factor=2, mode='nearest-exact')", "(scale_factor=1.7, recompute_scale_factor=True)"], (2, 3, 4, 5)),
        *each(["(scale_factor=2, mode='trilinear')"], (2, 3, 4, 5, 2)),
    ]
    found["UpsamplingNearest2d"] = each(["(scale_factor=(2, 3))", "(size=3)"], (2, 3, 4, 5))
    found["UpsamplingBilinear2d"] = each(["(size=3)", "(scale_factor=2)"], (2, 3, 4, 5))
    return found


LOSSES = {
    "L1Loss": losses(["()"], (3, 4), (3, 4)),
    "MSELoss": losses(["()"], (3, 4), (3, 4)),
    "SmoothL1Loss": losses(["()", "(beta=0.5)"], (3, 4), (3, 4)),
    "HuberLoss": losses(["()", "(delta=0.5)"], (3, 4), (3, 4)),
    "CrossEntropyLoss": losses(["()", "(ignore_index=1)", "(label_smoothing=0.1)"], (3, 5), i(5, 3))
    + losses(["()"], (2, 5, 4), i(5, 2, 4)) + losses(["()"], (3, 5), p(3, 5)) + losses(["()"], (5,), i(5)),
    "NLLLoss": losses(["()", "(ignore_index=1)"], (3, 5), i(5, 3)) + losses(["()"], (2, 5, 4, 3), i(5, 2, 4, 3)),
    "NLLLoss2d": losses(["()"], (2, 5, 4, 3), i(5, 2, 4, 3)),
    "BCELoss": losses(["()"], p(3, 4), p(3, 4)),
    "BCEWithLogitsLoss": losses(["()"], (3, 4), p(3, 4)),
    "KLDivLoss": losses(["()", "(log_target=True)"], (3, 4), p(3, 4)) + [("(reduction='batchmean')", [(3, 4), p(3, 4)])],
    "PoissonNLLLoss": losses(["()", "(log_input=False)", "(full=True)"], p(3, 4), p(3, 4)),
    "GaussianNLLLoss": losses(["()", "(full=True, eps=1e-3)"], (3, 4), (3, 4), p(3, 4)) + [("()", [(3, 4), (3, 4), p(3)])],
    "SoftMarginLoss": losses(["()"], (3, 4), s(3, 4)),
    "MultiLabelMarginLoss": losses(["()"], (3, 4), i(4, 3, 4)) + losses(["()"], (4,), i(4, 4)),
    "MultiLabelSoftMarginLoss": losses(["()"], (3, 4), p(3, 4)),
    "MultiMarginLoss": losses(["()", "(p=2, margin=0.5)"], (3, 4), i(4, 3)),
    "HingeEmbeddingLoss": losses(["()", "(margin=0.5)"], (3, 4), s(3, 4)),
    "MarginRankingLoss": losses(["()", "(0.5)"], (3,), (3,), s(3)),
    "CosineEmbeddingLoss": losses(["()", "(0.5)"], (3, 4), (3, 4), s(3)),
    "TripletMarginLoss": losses(["()", "(swap=True)", "(p=1.0, margin=2.0)"], (3, 4), (3, 4), (3, 4)),
    "TripletMarginWithDistanceLoss": losses(["()", "(margin=2.0, swap=True)"], (3, 4), (3, 4), (3, 4)),
    "CTCLoss": losses(["()", "(blank=1, zero_infinity=True)"], "ctc"),
}  # fmt: skip


def sequences():
    """Return recurrent layers, attention and transformers."""
    found = {}
    for kind in ("RNN", "LSTM", "GRU"):
        calls = ["(4, 5)", "(4, 5, 2)", "(4, 5, 2, bidirectional=True)", "(4, 5, bias=False)", "(4, 5, dropout=0.0, num_layers=3)"]
        found[kind] = each(calls, (7, 2, 4), (7, 4))
        found[kind] += each(["(4, 5, batch_first=True)", "(4, 5, 2, bias=False, batch_first=True, bidirectional=True)"], (2, 7, 4))
        state = (2, 2, 5)
        found[kind].append(("(4, 5, 2)", [(7, 2, 4), [state, state] if kind == "LSTM" else state]))
        cell = (2, 5)
        found[f"{kind}Cell"] = [*each(["(4, 5)", "(4, 5, bias=False)"], (2, 4), (4,)),
                                ("(4, 5)", [(2, 4), [cell, cell] if kind == "LSTM" else cell])]  # fmt: skip
    found["RNN"] += each(["(4, 5, nonlinearity='relu')"], (7, 2, 4))
    found["RNNCell"] += each(["(4, 5, nonlinearity='relu')"], (2, 4))
    found["LSTM"] += each(["(4, 5, 2, proj_size=3)", "(4, 5, proj_size=2, bidirectional=True)"], (7, 2, 4))
    q, k = (5, 2, 8), (6, 2, 8)
    found["MultiheadAttention"] = [
        ("(8, 2)", [q, k, k]), ("(8, 2)", [q, q, q, {"need_weights": False}]), ("(8, 2, bias=False)", [q, k, k]),
        ("(8, 2)", [q, k, k, {"average_attn_weights": False}]), ("(8, 4, add_bias_kv=True, add_zero_attn=True)", [q, k,
        k]), ("(8, 2, kdim=3, vdim=4)", [q, (6, 2, 3), (6, 2, 4)]), ("(8, 2, batch_first=True)", [(2, 5, 8), (2, 6, 8),
        (2, 6, 8)]), ("(8, 2)", [(5, 8), (6, 8), (6, 8)]), ("(8, 2)", [q, k, k, {"attn_mask": (5, 6)}]), ("(8, 2)", [q,
        k, k, {"key_padding_mask": (2, 6)}]), ("(8, 2)", [q, k, k, {"attn_mask": (4, 5, 6), "need_weights": False}]),
    ]
    calls = ["(8, 2, 16, 0.0)", "(8, 2, 16, 0.0, 'gelu', batch_first=True)", "(8, 2, 16, 0.0, norm_first=True, bias=False)",
             "(8, 2, 16, 0.0, nn.SiLU(), 1e-3)"]  # fmt: skip
    found["TransformerEncoderLayer"] = each(calls, (5, 3, 8), (5, 8)) + [
        ("(8, 2, 16, 0.0)", [(5, 3, 8), {"src_mask": (5, 5)}]), ("(8, 2, 16, 0.0)", [(5, 3, 8), {"src_key_padding_mask":
        (3, 5)}])]
    found["TransformerDecoderLayer"] = [(call, [(5, 3, 8), (6, 3, 8) if "batch_first" not in call else (5, 6, 8)]) for call in calls]
    layer = "nn.TransformerEncoderLayer(8, 2, 16, 0.0)"
    found["TransformerEncoder"] = each([f"({layer}, 2)", f"({layer}, 1, nn.LayerNorm(8))"], (5, 3, 8)) + [
        (f"({layer}, 2)", [(5, 3, 8), {"mask": (5, 5)}])]
    layer = "nn.TransformerDecoderLayer(8, 2, 16, 0.0)"
    found["TransformerDecoder"] = [(f"({layer}, 2)", [(5, 3, 8), (6, 3, 8)]), (f"({layer}, 1, nn.LayerNorm(8))", [(5, 8), (6, 8)])]
    found["Transformer"] = [
        ("(8, 2, 1, 2, 16, 0.0)", [(5, 3, 8), (6, 3, 8)]),
        ("(8, 2, 1, 1, 16, 0.0, 'gelu', batch_first=True, norm_first=True, bias=False)", [(3, 5, 8), (3, 6, 8)]),
        ("(8, 2, 1, 1, 16, 0.0)", [(5, 3, 8), (6, 3, 8), {"src_mask": (5, 5), "tgt_mask": (6, 6)}]),
    ]  # fmt: skip
    return found


CONTAINERS = {
    "Sequential": each(["(nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 2)))", "(OrderedDict(a=nn.Linear(4, 3)))", "()"], (3, 4)),
    "DataParallel": each(["(nn.Linear(4, 3))"], (2, 4)),
}

# Layers without a forward, or whose forward raises.
NO_FORWARD = {"Module", "Container", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "RNNBase",
"RNNCellBase"}


def forwards():
    """Return triples of a class name, the call that constructs the layer, and its inputs."""
    table = {name: each(calls, (2, 3, 4)) + each(calls[:1], ()) for name, calls in ACTIVATIONS.items()}
    table |= SHAPED | of_dimensions() | LOSSES | sequences() | CONTAINERS
    return [(name, call, inputs) for name in sorted(table) for call, inputs in table[name]]
