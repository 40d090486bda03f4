"""The examples at small sizes: deferred and materialised models equal eager ones."""

import pytest

import metatensor as mt
from metatensor.plugins import device_types
from metatensor.testing import check_deferred_matches

pytestmark = pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")

SMALL = {
    "gpt2": lambda m: m.GPT2(m.Config(layers=2, heads=2, width=16, vocabulary=50, context=12)),
    "llama3": lambda m: m.Llama3(m.Config(layers=2, heads=4, kv_heads=2, width=32, hidden=48, vocabulary=60, rope_scaling=m.RopeScaling())),
    "resnet50": lambda m: m.ResNet((1, 1, 1, 1), 5),
    "bert": lambda m: m.Bert(m.Config(vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_model_is_what_it_would_have_been(example, name):
    module = example(name)
    model = check_deferred_matches(lambda: SMALL[name](module))
    mt.assert_materialized(model)
