"""Wrong options of a search: each message names the option, and what it may be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor import nn
from metatensor.plan.sweeping import Case, sweep

SETTINGS = {"devices": "4xH100", "global_batch": 16}


def model():
    with mt.device("meta"):
        return nn.Sequential(*(nn.Linear(16, 16) for _ in range(4))), mt.empty(1, 16)


def search(**options):
    return mt.plan.search(*model(), **{**SETTINGS, **options})


@pytest.mark.parametrize("options, error, message", [
    ({"tensor": 4}, TypeError, r"search: tensor must be a list of integers of at least 1, such as \[4\], got 4"),
    ({"tensor": "4"}, TypeError, r"search: tensor must be a list of integers of at least 1, such as \[2\], got '4'"),
    ({"tensor": []}, ValueError, "search: tensor is an empty list; name at least one value, or leave it out"),
    ({"shard": 1}, TypeError, r"search: shard must be a list of integers from 0 to 3, such as \[1\]"),
    ({"sequence": ["yes"]}, ValueError, "search: sequence must be a list of True and False, got 'yes' in it"),
    ({"recompute": "full"}, TypeError, r"search: recompute must be a list of names, such as \['full'\], got 'full'"),
    ({"precision": []}, ValueError, "search: precision is an empty list"),
    ({"kernels": "gather"}, TypeError, r"such as \['gather'\]"),
    ({"keep": 0}, ValueError, "search: keep must be at least 1, got 0"),
    ({"max_memory": "3GB"}, TypeError, "search: max_memory must be an integer, got '3GB'"),
    ({"max_memory": -1}, ValueError, "search: max_memory must be at least 0"),
    ({"global_batch": 1.5}, TypeError, "search: global_batch must be an integer"),
    ({"headroom": "a"}, TypeError, "search: headroom must be a number from 0 to 1"),
    ({"devices": 4}, TypeError, "search: devices must be a text such as '8xH100'"),
    ({"optimizer": 3}, TypeError, "search: optimizer must be a name such as 'adamw'"),
    ({"loss": 3}, TypeError, "search: loss must be a function"),
    ({"gradient_dtype": "float32"}, TypeError, "search: gradient_dtype must be a dtype"),
    ({"pipelin": [1]}, TypeError, "no option 'pipelin', and Sequential takes no such argument; did you mean 'pipeline'"),
    ({"executor": 3}, TypeError, "sweep: executor must be a name such as 'process', or have a method submit"),
    ({"devices": "1x4090,1x3090,cpu:64GB,disk"}, ValueError, "places for the parts of a model, .* such as '8xH100' or"),
])  # fmt: skip
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        search(**options)


@pytest.mark.parametrize("options, message", [
    ({"context": [3]}, "context 3 does not divide the 4 devices that are left; possible values are 1, 2, 4"),
    ({"expert": [3]}, "expert 3 does not divide the ranks of data and context parallelism; possible values are 1, 2, 4"),
    ({"tensor": [1], "sequence": [True]}, "sequence True divides activations among tensor-parallel ranks, of which there is only one"),
    ({"pipeline": [4], "shard": [1]}, "shard 1 needs more than one data-parallel rank; add 0"),
    ({"pipeline": [4], "virtual_stages": [3], "schedules": ["Interleaved1F1B"]}, "none of the schedules Interleaved1F1B divides 4 blocks"),
])  # fmt: skip
def test_options_that_exclude_all_candidates(options, message):
    plan = search(**options)
    assert not plan.fits and plan.advice().startswith(message)


@pytest.mark.parametrize("inputs, message", [
    ((), "the batch, the first size of the inputs, is missing"), ((3,), "the batch, the first size of the inputs, is missing"),
    ((mt.empty(0, 16, device="meta"),), "the batch, the first size of the inputs, has the size 0"),
    ((mt.zeros(1, 16, device="cpu"),), "search: an input is on cpu; use one on meta"),
])  # fmt: skip
def test_wrong_inputs(inputs, message):
    with pytest.raises(ValueError, match=message):
        mt.plan.search(model()[0], *inputs, **SETTINGS)


@pytest.mark.parametrize("wrong, message", [
    ({"devices": "4xH100"}, "the settings of a case lack 'global_batch'"),
    ({**SETTINGS, "globalbatch": 3}, "unknown setting 'globalbatch'; did you mean 'global_batch'"),
    ({**SETTINGS, "zzz": 3}, "unknown setting 'zzz'; there are devices, "),
])  # fmt: skip
def test_wrong_settings_of_cases(wrong, message):
    with pytest.raises(ValueError, match=message):
        sweep([Case(lambda: (model()[0], model()[1:], {}), wrong)])


LISTS = st.lists(st.one_of(st.integers(-3, 9), st.floats(), st.text(max_size=3), st.none(), st.booleans()), max_size=3)
VALUES = st.one_of(LISTS, st.integers(-3, 9), st.text(max_size=4), st.floats(), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["tensor", "pipeline", "micro_batches", "context", "expert", "virtual_stages", "shard", "sequence",
                                        "recompute", "precision", "schedules", "offload", "kernels", "keep", "max_memory", "headroom",
                                        "global_batch", "price", "optimizer", "stages", "devices"]), VALUES, min_size=1, max_size=2))
def test_any_options_give_a_plan_or_name_the_option(options):
    try:
        plan = search(**options)
    except (TypeError, ValueError) as error:
        text = str(error)
        assert any(name in text for name in options) or any(repr(value) in text for value in options.values() if value != []), text
    else:
        assert plan.fits or plan.advice()
