"""The state of a model between decode steps, found by running the model."""

import metatensor as mt
from metatensor import nn
from metatensor.plan.decoding import Decoder


class Keys(nn.Module):
    """Keeps the whole past, the last `window` tokens of it, and a recurrent state of a fixed size."""

    def __init__(self, window=None):
        super().__init__()
        self.embed, self.head, self.window = nn.Embedding(100, 16), nn.Linear(16, 100), window

    def forward(self, tokens, past=None, memory=None):
        x = self.embed(tokens)
        past = x if past is None else mt.cat([past, x], 1)
        seen = past
        if self.window is not None:
            past = past[:, -self.window :].clone()
        memory = x.sum(1) if memory is None else memory + x.sum(1)
        y = nn.functional.scaled_dot_product_attention(x, seen, seen) + memory[:, None]
        return {"logits": self.head(y), "past": past, "memory": memory}


class Holding(nn.Module):
    """Keeps its state in an attribute of a module and returns nothing but logits."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(100, 16), nn.Linear(16, 100)

    def forward(self, tokens):
        x = self.embed(tokens)
        self.state = x.sum(1)
        return self.head(x)


def decoder(model, **options):
    return Decoder(model.to("meta"), **options)


def test_a_state_that_grows():
    keys = decoder(Keys())
    assert keys.state_bytes(1, 1) == 4 * 16 + 4 * 16
    assert keys.state_bytes(3, 10) == 3 * (10 * 4 * 16 + 4 * 16)
    assert {t.name: t.shape for t in keys.tensors(3, 10)} == {"past": (3, 10, 16), "memory": (3, 16)}


def test_a_window():
    keys = decoder(Keys(window=4))
    assert [keys.state_bytes(1, n) // 64 - 1 for n in (1, 3, 4, 5, 9)] == [1, 3, 4, 4, 4]


def test_a_state_in_a_module_counts():
    assert decoder(Holding()).state_bytes(2, 5) == 2 * 16 * 4


def test_a_state_under_another_name():
    class Other(Keys):
        def forward(self, tokens, past=None):
            out = super().forward(tokens, past)
            return out["logits"], out["past"]

    assert decoder(Other()).state_bytes(1, 6) == 0  # a tuple has no names
    assert decoder(Other(), feed=lambda output: {"past": output[1]}).state_bytes(1, 6) == 6 * 64


def test_what_a_step_creates():
    keys = decoder(Keys())
    logits, x = 5 * 100 * 4, 5 * 16 * 4
    assert logits + x <= keys.working_peak(1, 20, 5) < logits + 8 * x + 25 * 4 * 5


def test_the_growth_is_charged_not_the_whole():
    found = [call for call in decoder(Keys()).calls(2, 100, 1) if call.op == "cat"]
    assert [(call.read, call.written) for call in found] == [(2 * 64, 2 * 64)]


def test_a_smaller_dtype_is_read():
    keys = decoder(Keys())
    whole, half = ([call.read for call in keys.calls(1, 99, 1, dtype) if "attention" in call.op][0] for dtype in (None, mt.float16))
    assert whole - half == 2 * 100 * 16 * 2  # as keys and as values
