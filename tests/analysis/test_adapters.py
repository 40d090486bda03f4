"""fp8 weights, 8-bit optimizer states and LoRA: bytes of model states by hand."""

import pytest

import metatensor as mt
from metatensor.analysis import estimate_training


def model_and_input():
    with mt.device("meta"):
        return mt.nn.Sequential(mt.nn.Linear(128, 512), mt.nn.GELU(), mt.nn.Linear(512, 128)), mt.empty(4, 128)


MATRICES, BIASES = 2 * 128 * 512, 512 + 128


def test_fp8_weights():
    model, x = model_and_input()
    report = estimate_training(model, x, precision="fp8-weights")
    assert report.parameter_bytes == MATRICES + 2 * 4 + 2 * BIASES  # a scale for each of two matrices
    assert report.gradient_bytes == 2 * (MATRICES + BIASES)
    assert report.optimizer_bytes == 12 * (MATRICES + BIASES) + 4 * 4
    other = estimate_training(model, x, precision="bf16-master")
    assert other.parameter_bytes - report.parameter_bytes == MATRICES - 2 * 4
    assert other.saved_bytes == report.saved_bytes
    assert "left out" in str(report) and model[0].weight.dtype is mt.float32


def test_fp8_weights_count_tied_ones_once():
    with mt.device("meta"):
        first, second = mt.nn.Linear(64, 64, bias=False), mt.nn.Linear(64, 64, bias=False)
        second.weight = first.weight
        report = estimate_training(mt.nn.Sequential(first, second), mt.empty(2, 64), precision="fp8-weights")
    assert report.parameter_bytes == 64 * 64 + 4


def test_embeddings_and_what_is_tied_to_them_are_not_in_fp8():
    with mt.device("meta"):
        table, middle, head = mt.nn.Embedding(100, 64), mt.nn.Linear(64, 64, bias=False), mt.nn.Linear(64, 100, bias=False)
        head.weight = table.weight
        model = mt.nn.Sequential(table, middle, head)
        report = estimate_training(model, mt.empty(2, 8, dtype=mt.int64), precision="fp8-weights")
    assert report.parameter_bytes == 2 * 100 * 64 + 64 * 64 + 4


@pytest.mark.parametrize(("optimizer", "moments"), [("adamw8bit", 2), ("Adam8bit", 2), ("lion8bit", 1), ("sgd8bit", 1)])
def test_8_bit_states(optimizer, moments):
    model, x = model_and_input()
    report = estimate_training(model, x, optimizer=optimizer)
    blocks = MATRICES // 256  # each with a float32 scale
    small = 4 * BIASES        # tensors of fewer than 4096 elements keep float32 states
    tables = 256 * 4
    assert report.optimizer_bytes == moments * (MATRICES + 4 * blocks + small + tables)
    assert report.step_peak == 0
    assert report.optimizer.lower() == optimizer.lower()


def test_8_bit_states_with_copies_and_a_time():
    model, x = model_and_input()
    report = estimate_training(model, x, optimizer="adamw8bit", precision="bf16-master", device="h100-80gb")
    states = 2 * (MATRICES + 4 * MATRICES // 256 + 4 * BIASES + 256 * 4)
    assert report.optimizer_bytes == states + 4 * (MATRICES + BIASES)
    assert report.time.optimizer > 0


def test_8_bit_states_of_a_partial_block():
    with mt.device("meta"):
        report = estimate_training(mt.nn.Linear(4097, 1, bias=False), mt.empty(2, 4097), optimizer="lion8bit")
    assert report.optimizer_bytes == 4097 + 17 * 4 + 256 * 4


def test_8_bit_optimizers_refuse_what_does_not_apply():
    model, x = model_and_input()
    with pytest.raises(ValueError, match="foreach does not apply"):
        estimate_training(model, x, optimizer="adamw8bit", foreach=True)


def test_lora_by_hand():
    model, x = model_and_input()
    report = estimate_training(model, x, lora=8)
    adapters = 2 * 8 * (128 + 512)
    assert (report.trainable_parameters, report.frozen_parameters) == (adapters, MATRICES + BIASES)
    assert report.parameter_bytes == 4 * (MATRICES + BIASES + adapters)
    assert report.gradient_bytes == 4 * adapters and report.optimizer_bytes == 2 * 4 * adapters + 4 * 4
    assert report.forward_flops == 2 * 4 * (MATRICES + adapters)
    assert report.without_gradient == [] and "LoRA of rank 8 on 2 linear layers" in str(report)


def test_lora_leaves_the_model_as_it_was():
    model, x = model_and_input()
    model[2].bias.requires_grad_(False)
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    estimate_training(model, x, lora="4:2", precision="bf16", recompute="none")
    assert {name: p.requires_grad for name, p in model.named_parameters()} == before
    assert not hasattr(model[0], "lora_A") and not model[2]._forward_hooks


def test_lora_of_chosen_layers():
    class Block(mt.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.v = mt.nn.Linear(32, 32), mt.nn.Linear(32, 32)

        def forward(self, x):
            return self.v(self.q(x))

    with mt.device("meta"):
        model = mt.nn.Sequential(mt.nn.Sequential(Block(), Block(), Block()), mt.nn.Linear(32, 100))
        x = mt.empty(2, 32)
    inside = estimate_training(model, x, lora=2)  # not the last layer
    chosen = estimate_training(model, x, lora="2:*.v", recompute="full")
    assert inside.trainable_parameters == 6 * 2 * 64 and chosen.trainable_parameters == 3 * 2 * 64
    assert chosen.recompute_flops > 0


@pytest.mark.parametrize("lora", ["0", "x", "8:", "8:nothing"])
def test_lora_refuses(lora):
    model, x = model_and_input()
    with pytest.raises(ValueError, match="estimate_training: lora"):
        estimate_training(model, x, lora=lora)
