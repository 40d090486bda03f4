"""Old names of functions in `torch.hub`, and the progress bar that libraries import from here."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.hub import _get_torch_home, load_state_dict_from_url

try:
    from tqdm.auto import tqdm
except ModuleNotFoundError:

    class tqdm:  # type: ignore[no-redef]
        """A progress bar that displays nothing, used if tqdm is not installed."""

        def __init__(self, iterable: Any = (), *_: Any, **__: Any) -> None:
            self.iterable = iterable

        def __iter__(self) -> Any:
            return iter(self.iterable)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            return None

        def update(self, n: float = 1) -> None:
            """Do nothing."""

        def close(self) -> None:
            """Do nothing."""


__all__ = ["_get_torch_home", "load_state_dict_from_url", "load_url", "tqdm"]

load_url = load_state_dict_from_url
