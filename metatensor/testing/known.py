"""Shapes from which samples are made, and sample calls for operators whose schema does not suffice."""

from __future__ import annotations

from typing import Any

from metatensor._core.dtype import dtype_by_name
from metatensor.testing.samples import Sample, Spec

__all__ = ["BASES", "SHAPES", "TENSOR_LISTS"]

# Combinations of shapes by number of tensors: equal, broadcasting, for matrix products, for convolutions.
SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    0: [()],
    1: [((2, 3),), ((4,),), ((),), ((3, 3),), ((2, 3, 4),), ((1, 2, 6, 6),), ((1, 2, 4, 4, 4),), ((0, 3),), ((3, 2),), ((1, 2, 3),)],
    2: [
        ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), (3, 4)), ((3, 3), (3,)), ((3,), (3,)), ((2, 3, 4), (2, 4, 3)),
        ((1, 2, 6), (4, 2, 3)), ((1, 2, 6), (2, 2, 3)), ((1, 2, 6, 6), (4, 2, 3, 3)), ((1, 2, 6, 6), (2, 2, 3, 3)),
        ((1, 2, 4, 4, 4), (2, 2, 3, 3, 3)), ((2, 3), ()), ((), (2, 3)), ((3, 3), (3, 3)), ((3,), (4, 3)), ((1, 2, 4, 4), (1, 4, 4, 2)),
        ((1, 2, 3, 3),) * 2, ((1, 2, 2, 2, 2),) * 2, ((4,), (3, 2)), ((), ()), ((2, 3), (2,)), ((1, 2, 4, 4, 4), (1, 2, 2, 2, 3)),
    ],
    3: [
        ((2, 3), (2, 3), (2, 3)), ((2, 3), (3,), (2, 1)), ((2, 4), (2, 3), (3, 4)), ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        ((2,), (2, 3), (3,)), ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)), ((2, 3), (2,), (3,)), ((2, 3), (3,), (3,)),
        ((1, 2, 6, 6), (4, 2, 3, 3), (4,)), ((2, 3), (2, 2), (2, 2)), ((3, 5), (2, 3, 4), (2, 4, 5)), ((2, 3), (2, 3), ()),
        ((2, 3), (2,), (2, 3)), ((2, 3), (2,), ()), ((2, 3), (2, 3), (2,)),
        ((2, 3), (2, 4), (5, 3, 4)), ((5, 2, 3), (3, 3, 4), (4,)),
    ],
}  # fmt: skip

TENSOR_LISTS: list[tuple[tuple[int, ...], ...]] = [((2, 3), (2, 3)), ((3,), (3,)), ((2, 3), (3, 4))]


def _t(*shape: int, dtype: str = "float32", role: str = "fine", seed: int = 0) -> Spec:
    return Spec(shape, dtype, seed, role)


def _calls(*calls: dict[str, Any]) -> list[Sample]:
    return [Sample(arguments) for arguments in calls]


def _factories(*calls: dict[str, Any]) -> list[Sample]:
    return [Sample(arguments, True) for arguments in calls]


def _pools() -> dict[str, list[Sample]]:
    """Return pooling calls on images large enough for strides, dilations, and a last window that does not fit."""
    found = {}
    for d in (1, 2, 3):
        image = _t(1, 2, *(7, 6, 5)[:d])
        square = _t(2, 2, *(6,) * d, seed=1)
        windows = _calls({"input": image, "kernel_size": (2,) * d}, {"input": square, "kernel_size": (3, 2, 2)[:d]})
        for name in (f"max_pool{d}d", f"max_pool{d}d_with_indices", f"avg_pool{d}d"):
            found[f"nn.functional.{name}"] = windows
        found[f"nn.functional.lp_pool{d}d"] = [sample.change(norm_type=2.0, input=_t(*sample.arguments["input"].shape, role="positive"))
                                               for sample in windows]  # fmt: skip
        places = Spec((1, 2, *(3, 2, 2)[:d]), "int64", 1, "ordered")
        found[f"nn.functional.max_unpool{d}d"] = _calls(
            {"input": _t(*places.shape), "indices": places, "kernel_size": (2,) * d},
            {"input": _t(*places.shape[1:]), "indices": places._replace(shape=places.shape[1:]), "kernel_size": (2,) * d},
        )
        if d > 1:
            samples = _t(1, 2, d, role="unit")
            for name in (f"fractional_max_pool{d}d", f"fractional_max_pool{d}d_with_indices"):
                found[f"nn.functional.{name}"] = _calls(
                    {"input": image, "kernel_size": (2,) * d, "output_size": (3, 3, 2)[:d], "_random_samples": samples},
                    {"input": image, "kernel_size": (2,) * d, "output_ratio": (0.5, 0.6, 0.5)[:d], "_random_samples": samples},
                )
    return found


def _convolutions() -> dict[str, list[Sample]]:
    found = {}
    for d in (1, 2, 3):
        image = _t(2, 4, *(7, 6, 5)[:d])
        for name in (f"conv{d}d", f"conv_transpose{d}d"):
            found[f"nn.functional.{name}"] = _calls(
                {"input": image, "weight": _t(4, 4, *(3, 2, 2)[:d], seed=1)},
                {"input": image, "weight": _t(4, 2, *(3, 2, 2)[:d], seed=1), "groups": 2},
                {"input": image, "weight": _t(4, 4, *(3, 2, 2)[:d], seed=1), "bias": _t(4, seed=2), "stride": (2,) * d},
            )
        found[f"nn.functional.conv{d}d.padding"] = [
            sample.change(padding="same", stride=(1,) * d) for sample in found[f"nn.functional.conv{d}d"]
        ]
    plain = {"input": _t(2, 4, 7, 6), "weight": _t(4, 2, 3, 2, seed=1), "bias": _t(4, seed=2), "stride": (1, 2), "padding": (1, 0),
             "dilation": (2, 1), "transposed": False, "output_padding": (0, 0), "groups": 2}  # fmt: skip
    found["convolution"] = _calls(plain, plain | {"transposed": True, "stride": (2, 2), "output_padding": (1, 0)})
    return found


def _recurrences() -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for name, gates in (("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)):
        for layers, ways in ((1, 1), (2, 2)):
            rows = 4 * gates
            params = []
            for layer in range(layers):
                for way in range(ways):
                    width = 3 if layer == 0 else 4 * ways
                    seed = 10 * layer + 5 * way
                    params += [_t(rows, width, role="unit", seed=seed), _t(rows, 4, role="unit", seed=seed + 1)]
                    params += [_t(rows, role="unit", seed=seed + 2), _t(rows, role="unit", seed=seed + 3)]
            state: Any = _t(layers * ways, 2, 4, role="unit", seed=50)
            hx = [state, state._replace(seed=51)] if name == "lstm" else state
            call = {"input": _t(5, 2, 3), "hx": hx, "params": params, "has_biases": True, "num_layers": layers, "dropout": 0.0,
                    "train": False, "bidirectional": ways == 2, "batch_first": False}  # fmt: skip
            found.setdefault(name, []).append(Sample(call))
            if layers == 1:
                batch = [value._replace(shape=(1, 5, 4)) for value in (hx if isinstance(hx, list) else [hx])]
                found[name].append(Sample(call | {"batch_first": True, "input": _t(5, 2, 3), "hx": batch if name == "lstm" else batch[0]}))
                found[name].append(Sample(call | {"has_biases": False, "params": params[:2]}))
            packed = {"data": _t(5, 3), "batch_sizes": Spec((3,), "int64", 0, "descending"), **call}
            packed = {key: value for key, value in packed.items() if key not in ("input", "batch_first")}
            found.setdefault(name + ".data", []).append(Sample(packed))
        cell: dict[str, Any] = {"input": _t(2, 3), "hx": _t(2, 4, role="unit", seed=1), "w_ih": _t(4 * gates, 3, role="unit", seed=2),
                "w_hh": _t(4 * gates, 4, role="unit", seed=3)}  # fmt: skip
        if name == "lstm":
            cell["hx"] = [cell["hx"], cell["hx"]._replace(seed=7)]
        biases = {"b_ih": _t(4 * gates, role="unit", seed=4), "b_hh": _t(4 * gates, role="unit", seed=5)}
        found[name + "_cell"] = _calls(cell, cell | biases)
    return found


def _losses() -> dict[str, list[Sample]]:
    lengths = {"input_lengths": Spec((2,), "int64", 0, "fives"), "target_lengths": Spec((2,), "int64", 0, "twos")}
    ctc = {"log_probs": _t(5, 2, 4), "targets": Spec((2, 3), "int64", 0, "classes")}
    found = {
        "nn.functional.ctc_loss": _calls(ctc | lengths, ctc | lengths | {"input_lengths": Spec((2,), "int64", 0, "short")}),
        "nn.functional.ctc_loss.ints": _calls(ctc | {"input_lengths": (5, 4), "target_lengths": (3, 1)},
                                              ctc | {"input_lengths": (1, 4), "target_lengths": (3, 1)}),
    }  # fmt: skip
    classes = Spec((4,), "int64", 0, "classes")
    for name in ("nll_loss", "cross_entropy", "multi_margin_loss"):
        found[f"nn.functional.{name}"] = _calls({"input": _t(4, 5), "target": classes})
    found["nn.functional.cross_entropy"] += _calls({"input": _t(4, 5), "target": _t(4, 5, role="unit", seed=1)})
    for name in ("cosine_embedding_loss", "margin_ranking_loss"):
        shape = (4, 3) if name.startswith("cos") else (4,)
        found[f"nn.functional.{name}"] = _calls({"input1": _t(*shape), "input2": _t(*shape, seed=1), "target": _t(4, role="labels")})
    for name in ("hinge_embedding_loss", "soft_margin_loss"):
        found[f"nn.functional.{name}"] = _calls({"input": _t(4, 3), "target": _t(4, 3, role="labels")})
    found["nn.functional.multilabel_margin_loss"] = _calls({"input": _t(2, 4), "target": Spec((2, 4), "int64", 0, "classes")})
    return found


def _moments() -> dict[str, list[Sample]]:
    """Return calls in which a positional or an optional argument selects the schema."""
    found = {}
    for name in ("var", "std", "var_mean", "std_mean"):
        found[f"{name}.dim"] = _calls({"input": _t(2, 3), "dim": (1,), "unbiased": True},
                                      {"input": _t(2, 3, 4), "dim": (0, 2), "unbiased": False},
                                      {"input": _t(2, 3), "dim": (0,), "unbiased": False})
        found[f"{name}.unbiased"] = _calls({"input": _t(2, 3), "unbiased": True}, {"input": _t(4), "unbiased": False})
    found["polygamma.n"] = [Sample({"n": n, "input": _t(2, 3, role="positive")}, positional=("n", "input")) for n in (1, 0, 2)]
    return found  # fmt: skip


def _rest() -> dict[str, list[Sample]]:
    square = _t(3, 3, role="definite")
    pivots = Spec((3,), "int32", 0, "pivots")
    table = {"input": Spec((2, 4), "int64", 0, "classes"), "weight": _t(5, 3, seed=1)}
    flat = {"input": Spec((6,), "int64", 0, "classes"), "weight": _t(5, 3, seed=1), "offsets": Spec((3,), "int64", 0, "offsets")}
    return {
        "nn.functional.interpolate": _calls(*(
            {"input": _t(1, 2, *(4, 5, 3)[:d]), "size": (7, 3, 4)[:d], "mode": mode} for d, mode in
            ((2, "bilinear"), (1, "nearest"), (1, "linear"), (3, "trilinear"), (2, "bicubic"), (2, "area"), (2, "nearest-exact")))),
        "nn.functional.affine_grid": _calls({"theta": _t(1, 2, 3), "size": (1, 1, 3, 4)}, {"theta": _t(1, 3, 4), "size": (1, 1, 2, 3, 4)}),
        "affine_grid_generator": _calls({"theta": _t(1, 2, 3), "size": (1, 1, 3, 4), "align_corners": False}),
        "nn.functional.grid_sample": _calls({"input": _t(1, 2, 5, 4), "grid": _t(1, 3, 4, 2)},
                                            {"input": _t(1, 2, 4, 3, 5), "grid": _t(1, 2, 3, 2, 3)}),
        "nn.functional.embedding": _calls(table), "nn.functional.embedding_bag": _calls(
            table, flat, flat | {"include_last_offset": True, "offsets": Spec((3,), "int64", 0, "all_offsets")}),
        "nn.functional._batch_norm_eval": _calls(*({"input": _t(2, 4, *more), "running_mean": _t(4, seed=1),
             "running_var": _t(4, role="positive", seed=2), "weight": _t(4, seed=3), "bias": _t(4, seed=4), "eps": 0.5}
            for more in ((3,), ()))),
        "nn.functional._instance_norm_eval": _calls({"input": _t(2, 4, 3), "running_mean": _t(4, seed=1), "eps": 0.5,
             "running_var": _t(4, role="positive", seed=2), "weight": _t(4, seed=3), "bias": _t(4, seed=4)}),
        "native_group_norm": _calls({"input": _t(2, 4, 3), "weight": _t(4, seed=1), "bias": _t(4, seed=2), "N": 2, "C": 4, "HxW": 3,
                                     "group": 2, "eps": 0.5}),
        "nn.functional.group_norm": _calls({"input": _t(2, 4, 3), "num_groups": 2}, {"input": _t(2, 4, 3, 2), "num_groups": 4}),
        "_int_mm": _calls({"input": _t(17, 8, dtype="int8"), "mat2": _t(8, 8, dtype="int8", seed=1)}),
        "_scaled_mm": _calls({"input": _t(16, 16, dtype="float8_e4m3fn", role="unit"), "out_dtype": None,
                              "mat2": _t(16, 16, dtype="float8_e4m3fn", role="unit", seed=1),
                              "scale_a": _t(role="positive"), "scale_b": _t(role="positive", seed=1)},
                             {"input": _t(16, 16, dtype="float8_e4m3fn", role="unit"), "out_dtype": dtype_by_name("bfloat16"),
                              "mat2": _t(16, 16, dtype="float8_e4m3fn", role="unit", seed=1), "bias": _t(16, dtype="bfloat16"),
                              "scale_a": _t(role="positive"), "scale_b": _t(role="positive", seed=1)}),
        "lu_unpack": _calls({"LU_data": square, "LU_pivots": pivots}),
        "linalg.lu_solve": _calls({"LU": square, "pivots": pivots, "B": _t(3, 2)}, {"LU": square, "pivots": pivots, "B": _t(3, 3)}),
        "linalg.ldl_solve": _calls({"LD": square, "pivots": pivots, "B": _t(3, 2)}),
        "_linalg_solve_ex": _calls({"A": square, "B": _t(3, 2)}, {"A": square, "B": _t(3)}, {"A": square, "B": _t(2, 3), "left": False}),
        "_linalg_lstsq": _calls({"input": _t(4, 3), "b": _t(4, 2, seed=1), "rcond": None, "driver": "gelsd"},
                                {"input": _t(4, 3), "b": _t(4, 2, seed=1), "rcond": None, "driver": "gelsy"}),
        "searchsorted": _calls({"sorted_sequence": _t(5, role="sorted"), "input": _t(2, 3, role="values")},
                               {"sorted_sequence": _t(2, 5, role="sorted"), "input": _t(2, 3, role="values")}),
        "bucketize": _calls({"input": _t(2, 3, role="values"), "boundaries": _t(5, role="sorted")},
                            {"input": _t(4, role="ties"), "boundaries": _t(3, role="sorted")}),
        "nn.functional.scaled_dot_product_attention": _calls(
            {"query": _t(1, 4, 3, 8), "key": _t(1, 4, 5, 8, seed=1), "value": _t(1, 4, 5, 6, seed=2)},
            {"query": _t(1, 4, 3, 8), "key": _t(1, 2, 5, 8, seed=1), "value": _t(1, 2, 5, 6, seed=2), "enable_gqa": True}),
        "bincount": _calls({"input": Spec((8,), "int64", 0, "classes")}),
        "nn.functional.one_hot": _calls({"input": Spec((4,), "int64", 0, "classes")}),
        "histc": _calls({"input": _t(9, role="wide")}),
        "arange.start": _factories({"start": 1, "end": 9}, {"start": 0.5, "end": 4.0}),
        "range": _factories({"start": 1, "end": 9}, {"start": 0.5, "end": 4.0}),
        "linspace": _factories({"start": -1, "end": 3, "steps": 7}, {"start": 0.5, "end": 4.0, "steps": 1}),
        "logspace": _factories({"start": -1, "end": 3, "steps": 7}, {"start": 0.5, "end": 2.0, "steps": 4}),
        "cholesky": _calls({"input": square}, {"input": _t(2, 3, 3, role="definite")}),
        "linalg.cholesky_ex": _calls({"input": square}, {"input": _t(2, 3, 3, role="definite")}),
        "cholesky_inverse": _calls({"input": square}, {"input": _t(2, 3, 3, role="definite")}),
        "linalg.lu": _calls({"A": _t(3, 3)}, {"A": _t(2, 4, 3, role="wide")}),
        "linalg.lu_factor_ex": _calls({"A": _t(3, 3)}, {"A": _t(2, 4, 3, role="wide")}),
        "ormqr": _calls({"input": _t(3, 2), "input2": _t(2, seed=1), "input3": _t(3, 3, seed=2)}),
        "roll": _calls({"input": _t(2, 3), "shifts": (1,)}, {"input": _t(2, 3, 4), "shifts": (1, 2), "dims": (0, 2)}),
        "nonzero_static": _calls({"input": _t(2, 3, role="ties"), "size": 5}, {"input": _t(2, 3, role="ties"), "size": 2}),
        "multinomial": _calls({"input": _t(2, 6, role="unit"), "num_samples": 5}, {"input": _t(4, role="unit"), "num_samples": 2}),
        "nn.functional.poisson_nll_loss": _calls({"input": _t(2, 6), "target": _t(2, 6, role="positive", seed=3)},
                                                 {"input": _t(2, 3), "target": Spec((2, 3), "int64", 0, "index")}),
        "nn.functional.fold": _calls({"input": _t(1, 8, 12), "output_size": (5, 4), "kernel_size": (2, 2)},
                                     {"input": _t(8, 6), "output_size": (5, 6), "kernel_size": (2, 2), "dilation": (2, 3)}),
        "_histogramdd_bin_edges": _calls({"input": _t(9, 2), "bins": (3, 2)},
                                         {"input": _t(9, 2), "bins": (3, 2), "range": (-1.0, 2.0, 0.0, 3.0)}),
        "_histogramdd_from_bin_tensors": _calls({"input": _t(9, 2), "bins": [_t(4, role="sorted"), _t(3, role="sorted")]},
                                                {"input": _t(9, 2), "bins": [_t(4, role="sorted"), _t(3, role="sorted")],
                                                 "weight": _t(9, role="positive")}),
        "hash_tensor": _calls({"input": _t(2, 3)}, {"input": _t(2, 3, 4), "dim": (1,)}),
        "max_pool1d_with_indices": _calls({"input": _t(2, 2, 7), "kernel_size": (2,)},
                                          {"input": _t(2, 2, 7), "kernel_size": (2,), "padding": (1,), "dilation": (2,), "stride": (1,)}),
        **{name: _calls({"input": _t(3, 4), "indices": [Spec((2,), "int64", 0, "ordered")], "dims": (0,), "values": _t(2, 4, seed=1)},
                        {"input": _t(3, 4), "indices": [Spec((3,), "int64", 0, "ordered")] * 2, "dims": (0, 1), "values": _t(3, seed=1)})
           for name in ("_index_put_", "_index_put_accumulate_")},
        "combinations": _calls({"input": _t(5)}),
        "nn.functional.normalize": _calls({"input": _t(3, 4)}, {"input": _t(2, 3, 4)}),
        "nn.functional.triplet_margin_loss": _calls({"anchor": _t(4, 3), "positive": _t(4, 3, seed=1), "negative": _t(4, 3, seed=2)}),
        "isin": _calls({"elements": _t(2, 3, role="ties"), "test_elements": _t(3, role="ties", seed=1)}),
        "nn.functional.pad": _calls({"input": _t(2, 3, 4), "pad": (1, 2)}, {"input": _t(1, 2, 5, 4), "pad": (1, 2, 2, 1)}),
        "masked_scatter": _calls({"input": _t(2, 3), "mask": _t(2, 3, dtype="bool", role="values"), "source": _t(2, 3, seed=1)}),
        "_grouped_mm": _calls({"input": _t(8, 4), "mat2": _t(2, 4, 3, seed=1), "offs": Spec((2,), "int32", 0, "group_ends")}),
    }  # fmt: skip


BASES: dict[str, list[Sample]] = _pools() | _convolutions() | _recurrences() | _losses() | _moments() | _rest()
