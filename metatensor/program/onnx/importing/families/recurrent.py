"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []

_ACTIVATIONS: dict[str, Callable[[Tensor, float | None, float | None], Tensor]] = {
    "Tanh": lambda x, a, b: mt.tanh(x),
    "Sigmoid": lambda x, a, b: mt.sigmoid(x),
    "Relu": lambda x, a, b: mt.relu(x),
    "Affine": lambda x, a, b: x * (1.0 if a is None else a) + (0.0 if b is None else b),
    "LeakyRelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: F.threshold(x, 1.0 if a is None else a, 0.0),
    "ScaledTanh": lambda x, a, b: mt.tanh(x * (1.0 if b is None else b)) * (1.0 if a is None else a),
    "HardSigmoid": lambda x, a, b: mt.clamp(x * (0.2 if a is None else a) + (0.5 if b is None else b), 0, 1),
    "Elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "Softsign": lambda x, a, b: F.softsign(x),
    "Softplus": lambda x, a, b: F.softplus(x),
}


class _Layer:
    """The inputs of a recurrent layer, with time first."""

    def __init__(self, node: Node, gates: int, x: Tensor, w: Tensor, r: Tensor, b: Any, lengths: Any, h: Any, names: list[str]) -> None:
        direction = node.get("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise OnnxError(f"the direction {direction!r} is not known")
        self.node, self.first = node, bool(node.get("layout", 0))
        self.x = x.transpose(0, 1) if self.first else x
        self.steps, self.batch, _ = self.x.shape
        self.directions = 2 if direction == "bidirectional" else 1
        self.backwards = [direction == "reverse", True][: self.directions]
        self.w, self.r, self.lengths = w, r, lengths
        self.hidden = r.shape[2]
        if w.shape[0] != self.directions or w.shape[1] != gates * self.hidden:
            raise OnnxError(f"weights of shape {list(w.shape)} do not fit {self.directions} directions of {gates} gates")
        self.b = mt.zeros((self.directions, 2 * gates * self.hidden), dtype=x.dtype, device=x.device) if b is None else b
        self.h = self.state(h)
        given = node.get("activations") or names * self.directions
        alphas, betas = list(node.get("activation_alpha") or []), list(node.get("activation_beta") or [])
        self.default = list(given) == names * self.directions and not alphas and not betas and not node.get("clip")
        self.functions = []
        for name in given:
            name = next((known for known in _ACTIVATIONS if known.lower() == name.lower()), None)
            if name is None:
                raise OnnxError(f"an activation of {given} is not known")
            takes = {"Affine": 2, "ScaledTanh": 2, "HardSigmoid": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1}.get(name, 0)
            a = alphas.pop(0) if takes and alphas else None
            c = betas.pop(0) if takes == 2 and betas else None
            self.functions.append(lambda t, fn=_ACTIVATIONS[name], a=a, c=c: fn(t, a, c))
        clip = node.get("clip")
        self.clip = (lambda t: mt.clamp(t, -clip, clip)) if clip else (lambda t: t)

    def state(self, given: Tensor | None) -> Tensor:
        """Return an initial state: directions, batch, hidden."""
        if given is None:
            return mt.zeros((self.directions, self.batch, self.hidden), dtype=self.x.dtype, device=self.x.device)
        return given.transpose(0, 1) if self.first else given

    @property
    def plain(self) -> bool:
        """Whether metatensor's operators support the layer. They have no layer that runs only in reverse."""
        return self.default and self.lengths is None and not (self.directions == 1 and self.backwards[0])

    def weights(self, order: list[int]) -> list[Tensor]:
        """Return the weights with their gates in another order."""
        found = []
        n, gates = self.hidden, len(order)
        for d in range(self.directions):
            for t in (self.w[d], self.r[d], self.b[d][: gates * n], self.b[d][gates * n :]):
                found.append(t if order == list(range(gates)) else mt.cat([t[g * n : (g + 1) * n] for g in order]))
        return found

    def loop(self, step: Callable[..., tuple[Tensor, ...]], states: list[Tensor], per: int) -> tuple[Tensor, list[Tensor]]:
        """Run over time. `step` takes the direction, its functions, the input of a step and the states, and returns new states."""
        self.node.run.spend(self.steps * self.directions * 8)
        sides, finals = [], []
        for d, backwards in enumerate(self.backwards):
            own = [s[d] for s in states]
            rows: list[Any] = [None] * self.steps
            for t in range(self.steps - 1, -1, -1) if backwards else range(self.steps):
                new = step(d, self.functions[per * d : per * (d + 1)], self.x[t], *own)
                if self.lengths is not None:
                    going = (self.lengths > t)[:, None]
                    rows[t] = mt.where(going, new[0], mt.zeros_like(new[0]))
                    own = [mt.where(going, a, b) for a, b in zip(new, own, strict=True)]
                else:
                    rows[t], own = new[0], list(new)
            sides.append(mt.stack(rows) if rows else self.x.new_zeros((0, self.batch, self.hidden)))
            finals.append(own)
        return mt.stack(sides, 1), [mt.stack(column) for column in zip(*finals, strict=True)]

    def results(self, y: Tensor, states: list[Tensor]) -> tuple[Tensor, ...]:
        """Return the outputs: all hidden states (time, directions, batch, hidden), and the last states."""
        if self.first:
            return y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in states)
        return y, *states

    def sides(self, y: Tensor) -> Tensor:
        """Return all hidden states with a dimension for the directions."""
        return y.reshape(self.steps, self.batch, self.directions, self.hidden).transpose(1, 2)


@operator("RNN")
def _rnn(node: Node, x: Tensor, w: Tensor, r: Tensor, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    layer = _Layer(node, 1, x, w, r, b, lengths, h, ["Tanh"])
    n = layer.hidden
    if layer.plain:
        y, last = mt.rnn_tanh(layer.x, layer.h, layer.weights([0]), True, 1, 0.0, False, layer.directions == 2, False)
        return layer.results(layer.sides(y), [last])

    def step(d: int, fns: list[Any], x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return (fns[0](layer.clip(F.linear(x, w[d], layer.b[d][:n]) + F.linear(h, r[d], layer.b[d][n:]))),)

    return layer.results(*layer.loop(step, [layer.h], 1))


@operator("GRU")
def _gru(node: Node, x: Tensor, w: Tensor, r: Tensor, b: Any = None, lengths: Any = None, h: Any = None) -> Any:
    layer = _Layer(node, 3, x, w, r, b, lengths, h, ["Sigmoid", "Tanh"])
    n, later = layer.hidden, bool(node.get("linear_before_reset", 0))
    if layer.plain and later:
        y, last = mt.gru(layer.x, layer.h, layer.weights([1, 0, 2]), True, 1, 0.0, False, layer.directions == 2, False)
        return layer.results(layer.sides(y), [last])

    def step(d: int, fns: list[Any], x: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        own, rest = layer.b[d][: 3 * n], layer.b[d][3 * n :]
        from_x = F.linear(x, w[d], own)
        from_h = F.linear(h, r[d][: 2 * n], rest[: 2 * n])
        gates = fns[0](layer.clip(from_x[:, : 2 * n] + from_h))
        z, reset = gates[:, :n], gates[:, n:]
        if later:
            new = from_x[:, 2 * n :] + reset * F.linear(h, r[d][2 * n :], rest[2 * n :])
        else:
            new = from_x[:, 2 * n :] + F.linear(reset * h, r[d][2 * n :], rest[2 * n :])
        return ((1 - z) * fns[1](layer.clip(new)) + z * h,)

    return layer.results(*layer.loop(step, [layer.h], 2))


@operator("LSTM")
def _lstm(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None, p: Any = None,
) -> Any:
    layer = _Layer(node, 4, x, w, r, b, lengths, h, ["Sigmoid", "Tanh", "Tanh"])
    n, coupled = layer.hidden, bool(node.get("input_forget", 0))
    cell = layer.state(c)
    if layer.plain and p is None and not coupled:
        y, last, end = mt.lstm(layer.x, [layer.h, cell], layer.weights([0, 2, 3, 1]), True, 1, 0.0, False, layer.directions == 2, False)
        return layer.results(layer.sides(y), [last, end])

    def step(d: int, fns: list[Any], x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        i, o, f, g = mt.split(F.linear(x, w[d], layer.b[d][: 4 * n]) + F.linear(h, r[d], layer.b[d][4 * n :]), n, 1)
        if p is not None:
            i, f = i + p[d][:n] * c, f + p[d][2 * n :] * c
        i = fns[0](layer.clip(i))
        f = 1 - i if coupled else fns[0](layer.clip(f))
        new = f * c + i * fns[1](layer.clip(g))
        if p is not None:
            o = o + p[d][n : 2 * n] * new
        return fns[0](layer.clip(o)) * fns[2](new), new

    return layer.results(*layer.loop(step, [layer.h, cell], 3))
