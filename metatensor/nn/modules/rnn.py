"""Recurrent layers over sequences: RNN, LSTM and GRU."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import metatensor as mt
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.modules.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from metatensor.nn.parameter import Parameter
from metatensor.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

# Blocks of rows in a weight, and the operator.
_MODES: dict[str, Any] = {
    "LSTM": (4, mt.lstm),
    "GRU": (3, mt.gru),
    "RNN_TANH": (1, mt.rnn_tanh),
    "RNN_RELU": (1, mt.rnn_relu),
}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: parameters by layer and direction, checks, and the way through a sequence.

    ``mode`` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU". The parameters ``weight_ih_l{k}`` (gates hidden_size,
    features), ``weight_hh_l{k}``, with ``bias`` ``bias_ih_l{k}`` and ``bias_hh_l{k}``, with ``proj_size`` also
    ``weight_hr_l{k}`` (proj_size, hidden_size), each once more with ``_reverse`` where ``bidirectional``, start
    uniform in +-1 / sqrt(hidden_size). TypeError and ValueError for arguments of the wrong type or range.
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(type(self).__name__, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _MODES:
            raise ValueError(f"{type(self).__name__}: mode must be one of {sorted(_MODES)}, not {mode!r}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        width = proj_size or hidden_size
        high = _MODES[mode][0] * hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (high, input_size if layer == 0 else width * directions),
                "weight_hh": (high, width),
            }
            if bias:
                shapes |= {"bias_ih": (high,), "bias_hh": (high,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[:directions]:
                names = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in names.items():
                    setattr(self, name, Parameter(mt.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(names))
        self.reset_parameters()

    _kept_in_torch = ("_flat_weights_names", "_flat_weights")
    """Properties that are entries of the state that PyTorch pickles, see `checkpoint._pickle_writer`."""

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters as the operator takes them; looked up each time, so replacing one has effect."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # PyTorch keeps lists of the parameters and of their names, which are properties here.
        super().__setstate__({name: value for name, value in state.items() if not name.startswith("_flat_weight")})

    def flatten_parameters(self) -> None:
        """Nothing: the parameters need no particular place in memory here."""

    def reset_parameters(self) -> None:
        """Draw the initial values again."""
        init._uniform_within_(self.parameters(), self.hidden_size)

    def check_input(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> None:
        """ValueError for an input of another dtype than the weights', RuntimeError for wrong dimensions or features."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not mt.amp._is_any_autocast_enabled():
            raise ValueError(f"{self._get_name()}: the input has dtype {input.dtype}, the weights have {dtype}")
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"{self._get_name()}: expected {expected} dimensions, got shape {list(input.shape)}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{self._get_name()}: expected {self.input_size} features, got an input of shape {list(input.shape)}"
            )

    def _state_size(self, input: mt.Tensor, batch_sizes: mt.Tensor | None, width: int) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> tuple[int, int, int]:
        """The shape of the hidden state for an input, which is packed where batch sizes are given."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: mt.Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """RuntimeError with ``msg``, filled in with both, where a state has another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: mt.Tensor, hidden: Any, batch_sizes: mt.Tensor | None) -> None:
        """`check_input` and the shape of the state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: mt.Tensor | None) -> Any:
        """The states in another order of the sequences."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _map_states(self, hx: Any, change: Any) -> Any:
        return change(hx)

    def _initial(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> Any:
        size = self.get_expected_hidden_size(input, batch_sizes)
        return mt.zeros(size, dtype=input.dtype, device=input.device)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer at each step, and the last states of all layers.

        (time, batch, input_size), (batch, time, input_size) with ``batch_first``, or (time, input_size); states are
        (layers, batch, size), for both directions, or (layers, size), and zeros where none are given. A
        `PackedSequence` gives one.
        """
        packed = input if isinstance(input, PackedSequence) else None
        data, batch_sizes, order, back = packed or (input, None, None, None)
        unbatched, batch_dim = False, 0 if self.batch_first else 1
        if packed is None:
            if data.dim() not in (2, 3):
                raise ValueError(f"{self._get_name()}: expected 2 or 3 dimensions, got shape {list(data.shape)}")
            unbatched = data.dim() == 2
            if unbatched:
                data = data.unsqueeze(batch_dim)
            if hx is not None:
                self._map_states(hx, lambda state: self._check_state_dim(state, 2 if unbatched else 3))
                if unbatched:
                    hx = self._map_states(hx, lambda state: state.unsqueeze(1))
        hx = self._initial(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        options = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        compute = _MODES[self.mode][1]
        if batch_sizes is None:
            output, *last = compute(data, hx, *options, self.batch_first)
        else:
            output, *last = compute(data, batch_sizes, hx, *options)
        hidden = tuple(last) if len(last) > 1 else last[0]
        if packed is not None:
            return PackedSequence(output, batch_sizes, order, back), self.permute_hidden(hidden, back)
        if unbatched:
            return output.squeeze(batch_dim), self._map_states(hidden, lambda state: state.squeeze(1))
        return output, hidden

    def _check_state_dim(self, state: mt.Tensor, expected: int) -> None:
        if state.dim() != expected:
            raise RuntimeError(
                f"{self._get_name()}: expected states of {expected} dimensions for this input, "
                f"got shape {list(state.shape)}"
            )

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


def apply_permutation(tensor: mt.Tensor, permutation: mt.Tensor, dim: int = 1) -> mt.Tensor:
    """Parts of a tensor along ``dim`` in another order: ``tensor.index_select(dim, permutation)``."""
    return tensor.index_select(dim, permutation)


def _check_arguments(
    name: str, input_size: Any, hidden_size: Any, num_layers: int, bias: Any, batch_first: Any, dropout: Any, proj_size: int
) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(f"{name}: dropout must be a number between 0 and 1, not {dropout!r}")
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(f"{name}: dropout={dropout} is between layers, and there is one layer", stacklevel=4)
    given = {"bias": bias, "batch_first": batch_first, "input_size": input_size, "hidden_size": hidden_size}
    for (argument, value), kind in zip(given.items(), (bool, bool, int, int)):
        if not isinstance(value, kind):
            raise TypeError(f"{name}: {argument} must be of type {kind.__name__}, not {type(value).__name__}")
    for argument, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if size <= 0:
            raise ValueError(f"{name}: {argument} must be positive, not {size}")
    if not 0 <= proj_size < hidden_size:
        raise ValueError(f"{name}: proj_size must be less than hidden_size={hidden_size} and not negative, not {proj_size}")


def _no_projection(name: str, kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError(f"{name}: only an LSTM takes proj_size")


class RNN(RNNBase):
    """h' = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh) along a sequence, or relu by ``nonlinearity``.

    Called as ``RNN(input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
    dropout=0.0, bidirectional=False, device=None, dtype=None)``. See `RNNBase`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection("RNN", kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu', not {nonlinearity!r}")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory along a sequence; the state is a pair (hidden, cell).

    Called as ``LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, proj_size=0, device=None, dtype=None)``. The rows of the weights are those of the gates
    input, forget, cell and output. With ``proj_size`` hidden states are projected to that size. See `RNNBase`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> tuple[int, int, int]:
        """The shape of the cell for an input, which is packed where batch sizes are given."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def _both_sizes(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> tuple:
        return self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)

    def check_forward_args(self, input: mt.Tensor, hidden: Any, batch_sizes: mt.Tensor | None) -> None:
        """`check_input` and the shapes of both states."""
        self.check_input(input, batch_sizes)
        for i, (state, size) in enumerate(zip(hidden, self._both_sizes(input, batch_sizes))):
            self.check_hidden_size(state, size, f"LSTM: expected hidden[{i}] of shape {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: mt.Tensor | None) -> Any:
        """Both states in another order of the sequences."""
        return hx if permutation is None else self._map_states(hx, lambda state: state.index_select(1, permutation))

    def _map_states(self, hx: Any, change: Any) -> Any:
        first, second = hx[0], hx[1]  # both, before either is checked
        return change(first), change(second)

    def _initial(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> Any:
        sizes = self._both_sizes(input, batch_sizes)
        return tuple(mt.zeros(size, dtype=input.dtype, device=input.device) for size in sizes)


class GRU(RNNBase):
    """Gated recurrent units along a sequence.

    Called as ``GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
    bidirectional=False, device=None, dtype=None)``. The rows of the weights are those of the gates reset and update
    and of the new state. See `RNNBase`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection("GRU", kwargs)
        super().__init__("GRU", *args, **kwargs)
