"""The old names of what `torch.hub` offers, and the progress bar that libraries take from here."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.hub import _get_torch_home, load_state_dict_from_url

try:
    from tqdm.auto import tqdm
except ModuleNotFoundError:

    class tqdm:  # type: ignore[no-redef]
        """What stands for a progress bar where tqdm is not installed: it shows nothing."""

        def __init__(self, iterable: Any = (), *_: Any, **__: Any) -> None:
            self.iterable = iterable

        def __iter__(self) -> Any:
            return iter(self.iterable)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None:
            return None

        def update(self, n: float = 1) -> None:
            """Nothing to show."""

        def close(self) -> None:
            """Nothing to close."""


__all__ = ["_get_torch_home", "load_state_dict_from_url", "load_url", "tqdm"]

load_url = load_state_dict_from_url
