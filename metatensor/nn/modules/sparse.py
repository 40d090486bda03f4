"""Embedding layers."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn._parameter import without_grad
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Base of embedding layers: a table of rows, one of which may be the padding row."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: mt.Tensor | None,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"{type(self).__name__}: padding_idx={padding_idx} is not a row of num_embeddings={num_embeddings}"
                )
            padding_idx %= num_embeddings
        if weight is not None and list(weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError(
                f"{type(self).__name__}: the given weight has shape {list(weight.shape)}, "
                f"not {[num_embeddings, embedding_dim]}"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            self.weight = Parameter(mt.empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.weight = Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw new values from the standard normal distribution, and set row ``padding_idx`` to zeros."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            without_grad(self._zero_row, self.padding_idx)

    def _zero_row(self, row: int) -> None:
        self.weight.select(0, row).fill_(0)

    def _options(self) -> str:
        text = ""
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text


class Embedding(_Table):
    """Table of vectors, looked up by index: integers of shape ``(*)`` become ``(*, embedding_dim)``.

    ``weight`` has shape (num_embeddings, embedding_dim) and is initialized from the standard normal distribution.

    Parameters
    ----------
    num_embeddings : int
        Number of rows of the table.
    embedding_dim : int
        Size of each row.
    padding_idx : int, optional
        Row that is initialized with zeros and receives no gradient. It may be negative.
    max_norm : float, optional
        Largest norm of a row. Longer rows are rescaled in place when they are looked up. Default: no limit.
    norm_type : float
        Order of that norm. Default 2.
    scale_grad_by_freq : bool
        Divide the gradient of a row by the number of its look-ups. Default False.
    sparse : bool
        Use sparse gradients. Default False.
    _weight : Tensor, optional
        Initial table.
    _freeze : bool
        Create ``weight`` without gradient. Default False.
    device, dtype : optional
        Device and dtype of ``weight``.

    Raises
    ------
    AssertionError
        If ``padding_idx`` is not a row of the table or ``_weight`` has another shape.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.Embedding(10, 4)(mt.tensor([[1, 2, 5]])).shape
    metatensor.Size([1, 3, 4])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: mt.Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device,
            dtype,
        )
        if _freeze:
            self.weight.requires_grad_(False)

    def forward(self, input: mt.Tensor) -> mt.Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{self._options()}{sparse}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: mt.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return a layer that uses a given table.

        Parameters
        ----------
        embeddings : Tensor
            Table, of shape (num_embeddings, embedding_dim).
        freeze : bool
            Create ``weight`` without gradient. Default True.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
            As in `Embedding`.

        Raises
        ------
        AssertionError
            If ``embeddings`` does not have 2 dimensions.
        """
        rows, columns = _rows_and_columns(cls, embeddings)
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Sum, mean or maximum of several rows of a table, computed without creating a tensor of those rows.

    The layer is called with indices of shape (B, rows per bag), or with flat indices and ``offsets`` (B,), the start of
    each bag. The output has shape (B, embedding_dim). ``per_sample_weights`` has the shape of the indices and gives the
    weight of each row in a sum.

    Parameters
    ----------
    num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype
        As in `Embedding`.
    mode : str
        "sum", "mean" (the default) or "max".
    include_last_offset : bool
        Expect one more offset at the end, equal to the number of indices. Default False.
    padding_idx : int, optional
        Row that is initialized with zeros and left out of every bag.

    Examples
    --------
    >>> import metatensor as mt
    >>> bags = mt.nn.EmbeddingBag(10, 4)
    >>> bags(mt.tensor([1, 2, 4, 5]), offsets=mt.tensor([0, 3])).shape
    metatensor.Size([2, 4])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: mt.Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            device,
            dtype,
        )
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self,
        input: mt.Tensor,
        offsets: mt.Tensor | None = None,
        per_sample_weights: mt.Tensor | None = None,
    ) -> mt.Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            padding_idx=self.padding_idx,
            include_last_offset=self.include_last_offset,
            max_norm=self.max_norm,
            norm_type=self.norm_type,
            scale_grad_by_freq=self.scale_grad_by_freq,
            sparse=self.sparse,
        )

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options()}, mode={self.mode!r}{padding}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: mt.Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return a layer that uses a given table.

        Parameters
        ----------
        embeddings : Tensor
            Table, of shape (num_embeddings, embedding_dim).
        freeze : bool
            Create ``weight`` without gradient. Default True.
        max_norm, norm_type, scale_grad_by_freq, mode, sparse, include_last_offset, padding_idx
            As in `EmbeddingBag`.

        Raises
        ------
        AssertionError
            If ``embeddings`` does not have 2 dimensions.
        """
        rows, columns = _rows_and_columns(cls, embeddings)
        layer = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        layer.weight.requires_grad_(not freeze)
        return layer


def _rows_and_columns(cls: type, table: mt.Tensor) -> tuple[int, int]:
    if table.dim() != 2:
        raise AssertionError(f"{cls.__name__}.from_pretrained: expected 2 dimensions, got shape {list(table.shape)}")
    return table.shape[0], table.shape[1]
