"""Every conversion in value: samples of operators as ONNX models in onnxruntime, compared with the cpu device."""

import warnings

import pytest

import metatensor as mt
from metatensor._core.op import registry
from metatensor.program.structure import leaves
from metatensor.testing.search import base_samples, find_samples

pytest.importorskip("metatensor_cpu")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from metatensor.program.onnx import exporting
from metatensor.program.onnx.exporting.model import FAMILIES
from metatensor.program.onnx.exporting.table import CONVERSIONS
from program.onnx.exports import array, assert_close, exported, inputs_of, run

# What has no data, or whose samples have no tensors with data: compared in shape elsewhere, or made by functionalize only.
WITHOUT_VALUES = {"empty_like", "new_empty", "new_empty_strided"}
WITHOUT_ARGUMENTS = {"zeros", "ones", "full", "empty", "empty_strided", "empty_permuted", "arange", "range", "eye", "tril_indices",
                     "triu_indices", "scalar_tensor", "_from_host", "as_tensor", "asarray", "linspace"}  # fmt: skip
IN_PLACE = {"_index_put_", "_index_put_accumulate_", "_set_data", "copy_"}
OTHER = {"bfloat16", "cuda", "cpu", "type", "pin_memory", "_real", "_conj", "_neg_view"}  # a dtype that NumPy lacks, other devices
ELSEWHERE = {"nn.functional.one_hot", "_repeat_interleave", "nn.functional.upsample", "nn.functional.upsample_nearest",
             "nn.functional.upsample_bilinear", "nn.functional.adaptive_max_pool1d", "nn.functional.adaptive_max_pool1d_with_indices",
             "adaptive_max_pool1d", *(f"nn.functional.dropout{n}" for n in ("", "1d", "2d", "3d"))}  # fmt: skip
"""Operators whose samples here say nothing; test_exported_features.py has them."""
NAMES = [name for name in CONVERSIONS if name in registry
         and name not in WITHOUT_VALUES | WITHOUT_ARGUMENTS | IN_PLACE | OTHER | ELSEWHERE]  # fmt: skip


def test_the_families_fill_the_table():
    assert len(FAMILIES) == 10 and len(NAMES) > 250
    assert {function.__module__ for function in CONVERSIONS.values()} == {family.__name__ for family in FAMILIES}


def outcomes(op, samples):
    """Yield for each sample None if the model is right, or why it cannot be exported."""
    for sample in samples:
        arguments = sample.on("cpu")
        tensors = list(leaves(mt.Tensor, arguments))
        if not tensors or any(t.dtype.is_complex or t.dtype is mt.bfloat16 for t in tensors):
            continue

        def fn(arguments, positional=sample.positional):
            rest = {name: value for name, value in arguments.items() if name not in positional}
            return op(*[arguments[name] for name in positional], **rest)

        try:
            mt.manual_seed(1)
            results = list(leaves(mt.Tensor, fn(arguments)))
        except (RuntimeError, NotImplementedError, ValueError, IndexError):
            continue
        if not results:
            continue
        program = mt.program.trace(fn, arguments)
        try:
            made = exported(program)
        except exporting.ExportError as error:
            yield str(error)
            continue
        for got, wanted in zip(run(made, *inputs_of(program, tensors)), results, strict=True):
            assert_close(got, array(wanted))
        yield None


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_is_exported_right(name):
    op = registry[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [outcome for overload in op.overloads for outcome in outcomes(op, base_samples(op, overload, limit=2))]
    assert found and None in found, found


OPTIONS = """add div remainder round clamp nn.functional.gelu nn.functional.softplus nn.functional.conv2d nn.functional.conv_transpose2d
nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d nn.functional.interpolate nn.functional.pad
nn.functional.scaled_dot_product_attention nn.functional.group_norm sum mean amax argmax cumsum topk sort gather scatter scatter_reduce
slice slice_scatter select_scatter roll flip repeat_interleave nn.functional.grid_sample nn.functional.cross_entropy""".split()


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_exported_right(name):
    op = registry[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = [s for overload in op.overloads for s in find_samples(op, overload, ("float32", "int64"), "cpu", limit=3)
                   if not any(spec.role in ("special", "nans", "infinite", "extreme", "large") for _, spec in s.specs())][:24]
    assert None in list(outcomes(op, samples))
