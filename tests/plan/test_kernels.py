"""Kernels that save less for the backward pass than the operators of a model's code."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from plan.test_search import search
from plan.transformers_like import Attention, Decoder, decoder, tokens

WIDTH, HIDDEN, TOKENS, DEPTH, BYTES = 256, 1024, 128, 4, 2


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.RMSNorm(width), nn.RMSNorm(width), Attention(width, 8, 4)
        self.gate, self.up = nn.Linear(width, HIDDEN, bias=False), nn.Linear(width, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def planned(tensor=1, kernels=(), recompute="none", layer=Layer):
    return search(decoder(layer=layer), devices=f"{max(tensor, 2)}xH100", global_batch=2, tensor=[tensor], pipeline=[1], shard=[0],
                  sequence=[tensor > 1], micro_batches=[1], recompute=[recompute], context=[1], kernels=kernels)  # fmt: skip


def saved(**options):
    """Return the bytes that one micro-batch keeps for its backward pass."""
    plan = planned(**options)
    (coster,) = plan._costers.values()
    return sum(stage.saved for stage in coster.stages(plan.best.degrees))


def test_a_gated_activation_keeps_its_two_factors():
    assert saved() - saved(kernels=["activation"]) == DEPTH * TOKENS * HIDDEN * BYTES
    assert saved(tensor=2) - saved(tensor=2, kernels=["activation"]) == DEPTH * TOKENS * HIDDEN * BYTES // 2


def test_an_activation_that_a_product_of_matrices_reads_is_computed_again_too():
    class Plain(Layer):
        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    assert saved(layer=Plain) - saved(layer=Plain, kernels=["activation"]) == DEPTH * TOKENS * HIDDEN * BYTES


def test_activations_cost_no_further_time():
    plain, fused = planned().best, planned(kernels=["activation"]).best
    assert fused.seconds == plain.seconds and fused.peak < plain.peak


def test_sequences_are_gathered_again():
    plain, less = planned(tensor=2).best, planned(tensor=2, kernels=["gather"]).best
    part = DEPTH * 2 * TOKENS * WIDTH * BYTES // 2  # what attention and MLP read
    assert plain.memory[0]["saved"] - less.memory[0]["saved"] == part
    assert less.tensor_communication > plain.tensor_communication
    assert less.compute == plain.compute


def test_nothing_is_gathered_again_without_sequence_parallelism():
    assert planned(kernels=["gather"]).best.to_dict() == planned().best.to_dict()


def test_recomputed_blocks_are_not_changed():
    options = {"recompute": "full", "tensor": 2}
    assert saved(kernels=["activation"], **options) == saved(**options)
    head = TOKENS * WIDTH * BYTES // 2  # what it reads is gathered again
    assert saved(**options) - saved(kernels=["gather"], **options) == head


def test_activations_around_the_blocks():
    class Ends(Decoder):
        def __init__(self, **options):
            super().__init__(**options)
            self.more = nn.Linear(WIDTH, HIDDEN, bias=False)
            self.head = nn.Linear(HIDDEN, 64, bias=False)

        def forward(self, tokens):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(F.gelu(self.more(x)))

    def kept(kernels):
        with mt.device("meta"):
            plan = mt.plan.search(Ends(), tokens(1, TOKENS), devices="1xH100", global_batch=1, recompute=["full"], kernels=kernels)
        (coster,) = plan._costers.values()
        return sum(stage.saved for stage in coster.stages(plan.best.degrees))

    assert kept([]) - kept(["activation"]) == TOKENS * HIDDEN * BYTES


def test_unknown_kernels():
    with pytest.raises(ValueError, match="kernels 'rotary' is unknown; choose from activation, gather"):
        search(kernels=["rotary"])


def test_degrees_do_not_name_kernels():
    assert planned(kernels=["activation"]).best.degrees == planned().best.degrees == Degrees(data=2, micro_batch=1, precision="bf16-master")


def test_the_gradient_is_that_of_the_operators():
    from metatensor.analysis.calls import CallRecorder
    from metatensor.plan.kernels import saving_less

    x = mt.randn(5, requires_grad=True)
    (F.silu(x) * x).sum().backward()
    expected, x.grad = x.grad, None
    recorder = CallRecorder()
    with recorder, saving_less(("activation",), recorder):
        (F.silu(x) * x).sum().backward()
    assert mt.equal(x.grad, expected)
