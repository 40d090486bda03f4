"""Recurrent layers composed of other operators.

The inputs of all steps are multiplied by the weights in one product. Then the steps run one after another. On meta each
step multiplies its own inputs, as in PyTorch, because this changes which tensors exist at the same time.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.gradients import functional

__all__ = []


def _lstm_step(gates: Any, state: Any, w: Any, b: Any, size: int) -> Any:
    h, c = state
    made = gates + functional.linear(h, w, b)
    into, forget, cell, out = (made.narrow(-1, k * size, size) for k in range(4))
    into, forget, cell, out = into.sigmoid(), forget.sigmoid(), cell.tanh(), out.sigmoid()
    del made
    c = forget * c + into * cell
    return out * c.tanh(), c


def _gru_step(gates: Any, h: Any, w: Any, b: Any, size: int) -> Any:
    theirs = functional.linear(h, w, b)
    reset = (gates.narrow(-1, 0, size) + theirs.narrow(-1, 0, size)).sigmoid()
    update = (gates.narrow(-1, size, size) + theirs.narrow(-1, size, size)).sigmoid()
    new = (gates.narrow(-1, 2 * size, size) + reset * theirs.narrow(-1, 2 * size, size)).tanh()
    return new + update * (h - new)


def _tanh_step(gates: Any, h: Any, w: Any, b: Any, size: int) -> Any:
    return (gates + functional.linear(h, w, b)).tanh()


def _relu_step(gates: Any, h: Any, w: Any, b: Any, size: int) -> Any:
    return (gates + functional.linear(h, w, b)).relu()


def _projected(step: Any, projection: Any) -> Any:
    """Return the step function of an LSTM with a projected hidden state."""

    def projected(gates: Any, state: Any, w: Any, b: Any, size: int) -> Any:
        h, c = step(gates, state, w, b, size)
        return functional.linear(h, projection), c

    return projected


def _parts(weights: Any, step: Any, pair: bool) -> Any:
    """Return the weights and biases of a layer, its step function, and its number of hidden features."""
    w_ih, w_hh, *rest = weights
    if pair and len(rest) in (1, 3):
        return w_ih, w_hh, *(rest[:2] if len(rest) == 3 else (None, None)), _projected(step, rest[len(rest) - 1]), w_hh.shape[0] // 4
    return w_ih, w_hh, *(rest or (None, None)), step, w_hh.shape[1]


_STEPS = {"lstm": (_lstm_step, 4), "gru": (_gru_step, 3), "rnn_tanh": (_tanh_step, 1), "rnn_relu": (_relu_step, 1)}


def _cell(name: str) -> Any:
    step, parts = _STEPS[name]

    def cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        state = tuple(hx) if name == "lstm" else hx
        return step(functional.linear(input, w_ih, b_ih), state, w_hh, b_hh, w_hh.shape[1])

    return cell


lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell = (_cell(name) for name in _STEPS)


def _rows(state: Any, start: int, end: int, pair: bool) -> Any:
    return tuple(s[start:end] for s in state) if pair else state[start:end]


def _joined(states: Any, pair: bool) -> Any:
    """Concatenate the states of several sequences."""
    if len(states) == 1:
        return states[0]
    return tuple(mt.cat([s[k] for s in states]) for k in range(2)) if pair else mt.cat(states)


class _Gates:
    """The products of the inputs and a weight, by steps."""

    def __init__(self, x: Any, weight: Any, bias: Any) -> None:
        self._x, self._weight, self._bias = x, weight, bias
        self._all = None if x.is_meta else functional.linear(x, weight, bias)

    def __getitem__(self, at: Any) -> Any:
        return functional.linear(self._x[at], self._weight, self._bias) if self._all is None else self._all[at]


def _over_time(x: Any, state: Any, weights: Any, step: Any, backward: bool, pair: bool) -> Any:
    w_ih, w_hh, b_ih, b_hh, step, size = _parts(weights, step, pair)
    gates = _Gates(x, w_ih, b_ih)
    outputs: list[Any] = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
        state = step(gates[t], state, w_hh, b_hh, size)
        outputs[t] = state[0] if pair else state
    return mt.stack(outputs), state


def _over_packed(x: Any, sizes: Any, state: Any, weights: Any, step: Any, backward: bool, pair: bool) -> Any:
    """Run over packed sequences, sorted by decreasing length. `sizes` holds the number of sequences at each step."""
    w_ih, w_hh, b_ih, b_hh, step, size = _parts(weights, step, pair)
    gates = _Gates(x, w_ih, b_ih)
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    outputs: list[Any] = [None] * len(sizes)
    if backward:
        current = _rows(state, 0, sizes[-1], pair)
        for t in reversed(range(len(sizes))):
            have = sizes[t + 1] if t + 1 < len(sizes) else sizes[t]
            if sizes[t] > have:
                current = _joined([current, _rows(state, have, sizes[t], pair)], pair)
            current = step(gates[starts[t] : starts[t] + sizes[t]], current, w_hh, b_hh, size)
            outputs[t] = current[0] if pair else current
        return mt.cat(outputs), current
    current, done = state, []
    for t, count in enumerate(sizes):
        have = sizes[t - 1] if t else count
        if count < have:
            done.append(_rows(current, count, have, pair))
            current = _rows(current, 0, count, pair)
        current = step(gates[starts[t] : starts[t] + count], current, w_hh, b_hh, size)
        outputs[t] = current[0] if pair else current
    return mt.cat(outputs), _joined([current, *reversed(done)], pair)


def _layers(name: str, x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool, both: bool, generator: Any,
            run: Any) -> Any:  # fmt: skip
    step, pair = _STEPS[name][0], name == "lstm"
    ways, each = 2 if both else 1, 4 if has_biases else 2
    if pair and len(params) == layers * ways * (each + 1):
        each += 1  # the weight that projects the hidden state
    states = hx if pair else [hx]
    if len(states) != 1 + pair or len(params) != layers * ways * each or layers < 1:
        return NotImplemented  # the operator itself raises the error
    if any(state.dim() != 3 or state.shape[0] != layers * ways for state in states):
        return NotImplemented
    last: list[Any] = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            k = layer * ways + way
            state = (hx[0][k], hx[1][k]) if pair else hx[k]
            out, state = run(x, state, params[k * each : (k + 1) * each], step, way == 1, pair)
            outputs.append(out)
            last.append(state)
        x = mt.cat(outputs, -1) if both else outputs[0]
        if dropout and train and layer + 1 < layers:
            x = functional.dropout(x, dropout, True, False, generator=generator)
    if pair:
        return x, mt.stack([h for h, _ in last]), mt.stack([c for _, c in last])
    return x, mt.stack(last)


def _layer(name: str) -> Any:
    def layer(input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
              batch_first: bool, generator: Any) -> Any:  # fmt: skip
        x = input.transpose(0, 1) if batch_first else input
        made = _layers(name, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, generator, _over_time)
        return (made[0].transpose(0, 1), *made[1:]) if batch_first and made is not NotImplemented else made

    return layer


def _packed(name: str) -> Any:
    def packed(data: Any, batch_sizes: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
               bidirectional: bool, generator: Any) -> Any:  # fmt: skip
        try:
            sizes = batch_sizes.tolist()
        except DataDependentError:
            return NotImplemented  # the lengths of the sequences are not known
        run = lambda x, *rest: _over_packed(x, sizes, *rest)
        return _layers(name, data, hx, params, has_biases, num_layers, dropout, train, bidirectional, generator, run)

    return packed


lstm, gru, rnn_tanh, rnn_relu = (_layer(name) for name in _STEPS)
lstm_data, gru_data, rnn_tanh_data, rnn_relu_data = (_packed(name) for name in _STEPS)
