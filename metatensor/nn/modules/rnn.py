"""Recurrent layers: RNN, LSTM and GRU."""

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

# mode: (blocks of hidden_size rows in a weight, operator)
_MODES: dict[str, Any] = {
    "LSTM": (4, mt.lstm),
    "GRU": (3, mt.gru),
    "RNN_TANH": (1, mt.rnn_tanh),
    "RNN_RELU": (1, mt.rnn_relu),
}


class RNNBase(Module):
    """Base of `RNN`, `LSTM` and `GRU`.

    Layer ``k`` has parameters ``weight_ih_l{k}`` (G * hidden_size, features) and ``weight_hh_l{k}`` (G * hidden_size,
    proj_size or hidden_size). G is 1 for RNN, 3 for GRU and 4 for LSTM. Further parameters are ``bias_ih_l{k}`` and
    ``bias_hh_l{k}`` (G * hidden_size,) if ``bias``, and ``weight_hr_l{k}`` (proj_size, hidden_size) if ``proj_size``. A
    bidirectional layer has each of them a second time, with the suffix ``_reverse``. All are initialized uniformly
    within ±1 / sqrt(hidden_size).

    Parameters
    ----------
    mode : str
        "RNN_TANH", "RNN_RELU", "LSTM" or "GRU". The subclasses set it.
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    num_layers : int
        Number of stacked layers. Default 1.
    bias : bool
        Have biases. Default True.
    batch_first : bool
        Take and return tensors of shape (N, L, features) instead of (L, N, features). Default False.
    dropout : float
        Probability of dropping an output between two layers in training. Default 0.
    bidirectional : bool
        Run each layer in both directions and concatenate the outputs. Default False.
    proj_size : int
        Project hidden states to this size (LSTM only). Default 0, no projection.
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    TypeError
        If ``input_size``, ``hidden_size``, ``bias`` or ``batch_first`` is of the wrong type.
    ValueError
        If an argument is out of range.
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
    """Properties that `checkpoint._pickle_writer` writes as state, because PyTorch pickles them."""

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """All parameters in the order of the operator, looked up on each access because they may have been replaced."""
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """List of the parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # PyTorch's state contains _flat_weights and _flat_weights_names, which are properties here.
        super().__setstate__({name: value for name, value in state.items() if not name.startswith("_flat_weight")})

    def flatten_parameters(self) -> None:
        """Do nothing. The method exists for compatibility: no kernel here needs contiguous parameters."""

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init._uniform_within_(self.parameters(), self.hidden_size)

    def check_input(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> None:
        """Check dtype and shape of an input.

        Raises
        ------
        ValueError
            If the dtype is not that of the weights and autocast is off.
        RuntimeError
            If the number of dimensions or features is wrong.
        """
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not mt.amp._is_any_autocast_enabled():
            raise ValueError(f"{self._get_name()}: the input has dtype {input.dtype}, but the weights have {dtype}")
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
        """Return the shape of the hidden state for an input. ``batch_sizes`` is None unless the input is packed."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: mt.Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise RuntimeError if a state does not have the expected shape.

        ``msg`` is formatted with the expected and the actual shape.
        """
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: mt.Tensor, hidden: Any, batch_sizes: mt.Tensor | None) -> None:
        """Check the input (see `check_input`) and the shape of the state."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: mt.Tensor | None) -> Any:
        """Return the states with their sequences in the order of ``permutation``."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _map_states(self, hx: Any, change: Any) -> Any:
        return change(hx)

    def _initial(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> Any:
        size = self.get_expected_hidden_size(input, batch_sizes)
        return mt.zeros(size, dtype=input.dtype, device=input.device)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of the last layer at all steps, and the final states of all layers.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Shape (L, N, input_size), (N, L, input_size) if ``batch_first``, or (L, input_size).
        hx : Tensor or pair of Tensor, optional
            Initial state, (num_layers * directions, N, hidden_size) or the same without N. An LSTM takes a pair
            (hidden, cell). ``proj_size``, if set, is then the size of ``hidden``. Default zeros.

        Returns
        -------
        output : Tensor or PackedSequence
            As ``input``, with ``directions * hidden_size`` features (``proj_size`` in place of ``hidden_size`` if set).
        state : Tensor or pair of Tensor
            Final state, of the shape of ``hx``.
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
    """Return ``tensor.index_select(dim, permutation)``."""
    return tensor.index_select(dim, permutation)


def _check_arguments(
    name: str, input_size: Any, hidden_size: Any, num_layers: int, bias: Any, batch_first: Any, dropout: Any, proj_size: int
) -> None:
    if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(f"{name}: dropout must be a number between 0 and 1, not {dropout!r}")
    if dropout > 0 and num_layers == 1:  # type: ignore[operator]
        warnings.warn(f"{name}: dropout={dropout} has no effect, because it applies between layers and num_layers=1", stacklevel=4)
    given = {"bias": bias, "batch_first": batch_first, "input_size": input_size, "hidden_size": hidden_size}
    for (argument, value), kind in zip(given.items(), (bool, bool, int, int)):
        if not isinstance(value, kind):
            raise TypeError(f"{name}: {argument} must be of type {kind.__name__}, not {type(value).__name__}")
    for argument, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if size <= 0:
            raise ValueError(f"{name}: {argument} must be positive, not {size}")
    if not 0 <= proj_size < hidden_size:
        raise ValueError(f"{name}: proj_size must be less than hidden_size={hidden_size} and at least 0, got {proj_size}")


def _no_projection(name: str, kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError(f"{name}: only an LSTM takes proj_size")


class RNN(RNNBase):
    """Elman network: ``h' = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)`` along a sequence.

    Inputs of shape (L, N, input_size) give outputs of shape (L, N, hidden_size). See `RNNBase` for the parameters and
    `RNNBase.forward` for other shapes. The signature is ``RNN(input_size, hidden_size, num_layers=1,
    nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None)``.

    Parameters
    ----------
    nonlinearity : str
        "tanh" (the default) or "relu".

    Examples
    --------
    >>> import metatensor as mt
    >>> output, hidden = mt.nn.RNN(8, 16)(mt.empty(5, 2, 8))
    >>> output.shape, hidden.shape
    (metatensor.Size([5, 2, 16]), metatensor.Size([1, 2, 16]))
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
    """Long short-term memory along a sequence (Hochreiter and Schmidhuber, 1997). The state is a pair (hidden, cell).

    Inputs of shape (L, N, input_size) give outputs of shape (L, N, hidden_size). The rows of the weights belong to four
    gates in this order: input, forget, cell, output. See `RNNBase` for the parameters and `RNNBase.forward` for
    other shapes. The signature is ``LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
    dropout=0.0, bidirectional=False, proj_size=0, device=None, dtype=None)``.

    Examples
    --------
    >>> import metatensor as mt
    >>> output, (hidden, cell) = mt.nn.LSTM(8, 16, num_layers=2)(mt.empty(5, 2, 8))
    >>> output.shape, hidden.shape, cell.shape
    (metatensor.Size([5, 2, 16]), metatensor.Size([2, 2, 16]), metatensor.Size([2, 2, 16]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> tuple[int, int, int]:
        """Return the shape of the cell state for an input. ``batch_sizes`` is None unless the input is packed."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def _both_sizes(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> tuple:
        return self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)

    def check_forward_args(self, input: mt.Tensor, hidden: Any, batch_sizes: mt.Tensor | None) -> None:
        """Check the input (see `check_input`) and the shapes of both states."""
        self.check_input(input, batch_sizes)
        for i, (state, size) in enumerate(zip(hidden, self._both_sizes(input, batch_sizes))):
            self.check_hidden_size(state, size, f"LSTM: expected hidden[{i}] of shape {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: mt.Tensor | None) -> Any:
        """Return both states with their sequences in the order of ``permutation``."""
        return hx if permutation is None else self._map_states(hx, lambda state: state.index_select(1, permutation))

    def _map_states(self, hx: Any, change: Any) -> Any:
        first, second = hx[0], hx[1]  # a missing element raises before either state is checked
        return change(first), change(second)

    def _initial(self, input: mt.Tensor, batch_sizes: mt.Tensor | None) -> Any:
        sizes = self._both_sizes(input, batch_sizes)
        return tuple(mt.zeros(size, dtype=input.dtype, device=input.device) for size in sizes)


class GRU(RNNBase):
    """Gated recurrent unit along a sequence (Cho et al., 2014).

    Inputs of shape (L, N, input_size) give outputs of shape (L, N, hidden_size). The rows of the weights belong to the
    reset gate, the update gate and the new state, in this order. See `RNNBase` for the parameters and `RNNBase.forward`
    for other shapes. The signature is ``GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
    dropout=0.0, bidirectional=False, device=None, dtype=None)``.

    Examples
    --------
    >>> import metatensor as mt
    >>> output, hidden = mt.nn.GRU(8, 16, bidirectional=True)(mt.empty(5, 2, 8))
    >>> output.shape, hidden.shape
    (metatensor.Size([5, 2, 32]), metatensor.Size([2, 2, 16]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _no_projection("GRU", kwargs)
        super().__init__("GRU", *args, **kwargs)
