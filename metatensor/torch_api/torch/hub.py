"""Download of weights, and models defined by a ``hubconf.py`` in a local directory. Code is never downloaded."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import sys
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"

_hub_dir: str | None = None


def _get_torch_home() -> str:
    """Return ``$TORCH_HOME``, or ``torch`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``."""
    cache = os.path.join(os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR), "torch")
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, cache))


def get_dir() -> str:
    """Return the directory for downloads, as set by `set_dir`.

    The default is ``hub`` in the directory `_get_torch_home`.
    """
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the directory for downloads."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file to `dst`. A partial download never appears under that name.

    Parameters
    ----------
    url, dst : str
    hash_prefix : str, optional
        Expected start of the SHA-256 hash of the file, in hexadecimal.
    progress : bool
        Whether progress is reported on stderr. Default: True.

    Raises
    ------
    RuntimeError
        If the hash does not start with `hash_prefix`.
    """
    # Imported lazily, because most importers of this module download nothing.
    import hashlib
    import uuid
    from urllib.request import Request, urlopen

    dst = os.path.expanduser(dst)
    part = f"{dst}.{uuid.uuid4().hex}.partial"
    digest = hashlib.sha256()
    try:
        with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source, open(part, "wb") as file:
            length = source.headers.get("Content-Length")
            total, done = int(length) if length else 0, 0
            while chunk := source.read(READ_DATA_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if progress:
                    _report(done, total)
        if progress:
            sys.stderr.write("\n")
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}") of {url}')
        os.replace(part, dst)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _report(done: int, total: int) -> None:
    size = f"{done / 2**20:.1f}/{total / 2**20:.1f} MB" if total else f"{done / 2**20:.1f} MB"
    sys.stderr.write(f"\r{size}")
    sys.stderr.flush()


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Download a checkpoint unless it is cached, and load it.

    Parameters
    ----------
    url : str
    model_dir : str, optional
        Directory of the cache. Default: ``checkpoints`` in `get_dir`.
    map_location : optional
        See `torch.load`.
    progress : bool
        Whether progress is reported on stderr. Default: True.
    check_hash : bool
        If True, the SHA-256 hash of the file must start with the digits in its name, ``name-<digits>.ext``. Default:
        False.
    file_name : str, optional
        Name in the cache. Default: the last part of the URL.
    weights_only : bool
        See `torch.load`. Default: False, so the file is unpickled and can run code.

    Returns
    -------
    dict
    """
    import zipfile

    from metatensor.torch_api.torch import serialization

    if model_dir is None:
        model_dir = os.path.join(get_dir(), "checkpoints")
    os.makedirs(model_dir, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(model_dir, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, match.group(1) if match else None, progress=progress)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # A checkpoint in zip format has many members. An archive of one file is a zipped checkpoint in legacy format.
            if len(members) == 1 and not members[0].is_dir():
                archive.extractall(model_dir)
                path = os.path.join(model_dir, members[0].filename)
    found: dict[str, Any] = serialization.load(path, map_location=map_location, weights_only=weights_only)
    return found


# Repositories ---------------------------------------------------------------------------------------------------------


def load(
    repo_or_dir: str | os.PathLike[str], model: str, *args: Any, source: str = "github", trust_repo: Any = None,
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """Call an entry point of the ``hubconf.py`` in a directory and return its result.

    Parameters
    ----------
    repo_or_dir : str or PathLike
        The directory.
    model : str
        Name of the entry point. It is called with `args` and `kwargs`.
    source : str
        Must be "local", although the default is "github".
    trust_repo, force_reload, verbose, skip_validation
        Ignored.

    Raises
    ------
    NotImplementedError
        If `source` is "github".
    FileNotFoundError
        If the directory has no ``hubconf.py``.
    RuntimeError
        If there is no such entry point, or dependencies are missing.
    """
    return _entry(_hubconf("load", repo_or_dir, source), model)(*args, **kwargs)


def list(
    github: str | os.PathLike[str], force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
    verbose: bool = True, *, source: str | None = None,
) -> Any:  # fmt: skip
    """Return the names of the entry points of the ``hubconf.py`` in a directory."""
    module = _hubconf("list", github, source or ("local" if os.path.isdir(github) else "github"))
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str | os.PathLike[str], model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
    *, source: str | None = None,
) -> str | None:  # fmt: skip
    """Return the docstring of an entry point of the ``hubconf.py`` in a directory."""
    module = _hubconf("help", github, source or ("local" if os.path.isdir(github) else "github"))
    return _entry(module, model).__doc__  # type: ignore[no-any-return]


def _hubconf(name: str, place: str | os.PathLike[str], source: str) -> ModuleType:
    """Import the ``hubconf.py`` of a directory."""
    if source.lower() not in ("github", "local"):
        raise ValueError(f'torch.hub.{name}: source must be "github" or "local", got "{source}"')
    if source.lower() != "local":
        raise NotImplementedError(
            f"torch.hub.{name}: metatensor downloads no code; download {os.fspath(place)!r} yourself and pass source=\"local\""
        )
    folder = os.fspath(place)
    path = os.path.join(folder, MODULE_HUBCONF)
    if not os.path.isfile(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        missing = [one for one in getattr(module, VAR_DEPENDENCY, ()) if importlib.util.find_spec(one) is None]
    finally:
        sys.path.remove(folder)
    if missing:
        raise RuntimeError(f"torch.hub.{name}: Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: ModuleType, model: str) -> Any:
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found
