"""Program files: a zip archive that any language can read. docs/programs.md describes it."""

from __future__ import annotations

import io
import json
import os
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import metatensor as mt
from metatensor._core.capture import ProgramCall, Value
from metatensor._core.constants import keep_constants, made_of_bytes
from metatensor._core.errors import DataDependentError
from metatensor._core.op import registry
from metatensor._core.tensor import Tensor
from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint import inspect as inspect_tensors
from metatensor.checkpoint import load as load_tensors
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint._zip_writer import ZipWriter
from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.saving import save as save_tensors
from metatensor.checkpoint.source import Source
from metatensor.deferred.known import is_constant, known_storage_bytes
from metatensor.program.encoding import Malformed, decoded, dtype_of, encoded
from metatensor.program.program import Effect, Program
from metatensor.program.running import fill, with_values
from metatensor.program.structure import leaves

__all__ = ["VERSION", "end_of", "load", "load_with", "names_with_data", "save"]

FORMAT, VERSION, SIZED = "metatensor program", 1, 2
"""Files of programs with named sizes have version 2. Others have version 1, which older releases can read."""
HEAD, CALLS, TENSORS, SIZES = "program.json", "calls.jsonl", "tensors.safetensors", "sizes.json"
EXTRA = "extra/"
MOST = 1 << 30
"""Maximum bytes of text in a program file."""
_PER_CALL = 2000
"""Estimated bytes of memory per call, charged to the reader's budget."""


def save(
    program: Program, f: str | os.PathLike[str] | BinaryIO, *, parameters: bool = True, extra: Mapping[str, bytes | str] | None = None,
    members: Mapping[str, bytes] | None = None,
) -> None:  # fmt: skip
    """Save a program to a file. See `Program.save`. `extra` has further members of the file, stored below ``extra/``.

    `members` has those of a program with named sizes.
    """
    head, lines = described(program, SIZED if members else VERSION)
    data = {name: t.detach().contiguous() for name, t in program.tensors.items() if not t.is_meta and _readable(t)} if parameters else {}
    whole = {**{EXTRA + name: content for name, content in (extra or {}).items()}, **(members or {})}
    if not isinstance(f, (str, bytes, os.PathLike)):
        _write(f, head, lines, data, whole)
    else:
        with replacing(os.fsdecode(os.fspath(f))) as file:
            _write(file, head, lines, data, whole)


def described(program: Program, version: int = 1) -> tuple[dict[str, Any], list[str]]:
    """Return the header of a program file, and a line for each call."""
    values = program.values
    head = {
        "format": FORMAT, "version": version, "name": program.name, "names": list(program.names),
        "arguments": encoded(list(program.arguments), None),
        "output": encoded(program.output, None),
        "held": [[name, value.number, program.kinds[name], bool(value.requires_grad)] for name, value in program.held.items()],
        "tied": program.tied, "effects": [[e.kind, e.name, e.value.number] for e in program.effects],
        "releases": [[at, list(storages)] for at, storages in sorted(program.releases.items())], "modules": program.modules,
        "reads": [[at, op, value.number] for at, op, value in program.reads],
        "default_dtype": None if program.default_dtype is None else program.default_dtype.name,
        "values": [_row(value) for value in values.values()],
    }  # fmt: skip
    known = _known(program)
    if known:
        head["known"] = known
    lines = [json.dumps(_call_row(call, f"call {i} of {call.op.name}"), separators=(",", ":")) for i, call in enumerate(program.calls)]
    return head, lines


def _known(program: Program) -> dict[str, str]:
    """Return the bytes of the storages of tensors on meta whose values follow from constants, in base64, by a name of each."""
    found: dict[str, str] = {}
    storages: set[int] = set()
    for name, tensor in program.tensors.items():
        value = program.held.get(name)
        if value is not None and tensor.is_meta and is_constant(tensor) and value.storage not in storages:
            storages.add(value.storage)
            with suppress(DataDependentError):  # an operator has no kernel
                found[name] = b64encode(known_storage_bytes(tensor)).decode()
    return found


def _call_row(call: ProgramCall, where: str) -> list[Any]:
    return [call.op.name, encoded(list(call.args), where), {key: encoded(a, where) for key, a in call.kwargs.items()},
            encoded(call.result, where), [value.number for value in call.writes], call.grad, call.backward, call.module]  # fmt: skip


def _readable(t: Tensor) -> bool:
    """Return True if a tensor has data."""
    return t.untyped_storage().data_ptr() != 0 or not t.numel()


def _row(value: Value) -> list[Any]:
    return [value.number, value.storage, value.dtype.name, str(value.device), value.offset, list(value.shape), list(value.stride),
            value.conj, value.neg, value.requires_grad]  # fmt: skip


def _write(file: BinaryIO, head: dict[str, Any], lines: list[str], data: dict[str, Tensor], members: Mapping[str, bytes | str]) -> None:
    writer = ZipWriter(file)
    writer.add(HEAD, json.dumps(head, indent=1).encode())
    writer.add(CALLS, "\n".join(lines).encode())
    for name, content in members.items():
        writer.add(name, content.encode() if isinstance(content, str) else bytes(content))
    if data:
        owned: set[int] = set()
        alone = {}
        for name, t in data.items():  # the format has no shared memory
            key = t.untyped_storage().data_ptr()
            alone[name] = t.clone() if key in owned else t
            owned.add(key)
        packed = io.BytesIO()
        save_tensors(alone, packed, format="safetensors")
        writer.add(TENSORS, packed.getbuffer(), align=64)
    writer.close()


# Reading -----------------------------------------------------------------------------------------------------


class _Window(io.RawIOBase):
    """A file object for a part of a file."""

    def __init__(self, file: BinaryIO, begin: int, size: int) -> None:
        self._file, self._begin, self._size, self._at = file, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + (0 if whence == os.SEEK_SET else self._at if whence == os.SEEK_CUR else self._size))
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), max(self._size - self._at, 0))
        self._file.seek(self._begin + self._at)
        data = self._file.read(count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def load(f: str | os.PathLike[str] | BinaryIO, *, device: Any = None, extra: dict[str, Any] | None = None) -> Program:
    """Read a program from a file that `Program.save` or PyTorch's ``torch.export.save`` wrote. Nothing in it is executed.

    A ``.pt2`` file of PyTorch gives the program for the sizes at which it was exported.

    Parameters
    ----------
    f : str, path or binary file
        The file.
    device : device, optional
        Where parameters, buffers and constants are placed. Default: those with data on cpu, the others on meta.
    extra : dict, optional
        Its values are replaced by the bytes of the members ``extra/KEY``, for the keys that the file has.

    Returns
    -------
    Program
        The program, which does not need the source of the model.

    Raises
    ------
    CheckpointError
        If the file is not a program, is damaged, has a later version, or uses operators that do not exist.
    NotImplementedError
        If a file of PyTorch calls operators that metatensor does not have. The message lists them.
    """
    if not isinstance(f, (str, bytes, os.PathLike)):
        return _load(f, getattr(f, "name", "program"), device, extra)
    with open(f, "rb") as file:
        return _load(file, os.fsdecode(os.fspath(f)), device, extra)


def load_with(file: BinaryIO, name: str, tensors: dict[str, Tensor], device: Any) -> Program:
    """Return the program in a file with these parameters, buffers and constants instead of those in the file."""
    return _load(file, name, device, None, tensors)


def _load(
    file: BinaryIO, name: str, device: Any, extra: dict[str, Any] | None, given: dict[str, Tensor] | None = None
) -> Program:
    with shared():
        directory = Directory(Source(file, name))
        if HEAD not in directory and len(directory):
            return _of_torch(directory, name, device, extra)
        if HEAD not in directory or CALLS not in directory:
            raise CheckpointError(name, f"it is no program: it has no {HEAD if HEAD not in directory else CALLS}")
        known: dict[str, bytes] = {}
        try:
            program = _program(directory, "", known)
        except (Malformed, UnicodeDecodeError, RecursionError, json.JSONDecodeError) as error:
            raise CheckpointError(name, f"it is not a program: {error}") from None
        for key in extra or ():
            if EXTRA + key in directory:
                extra[key] = directory.read(EXTRA + key, MOST)  # type: ignore[index]
        data = given or {}
        if TENSORS in directory and given is None:
            if not directory.is_stored(TENSORS):
                raise CheckpointError(name, f"{TENSORS} must not be compressed")
            begin, size = directory.place_of(TENSORS)
            on_meta = device is not None and mt.device(device).type == "meta"  # then no data is read
            data = load_tensors(io.BufferedReader(_Window(file, begin, size)), "meta" if on_meta else None)  # type: ignore[arg-type]
        for part in program.parts:
            rest = {name: value for name, value in part.held.items() if name not in program.tensors}
            program.tensors.update(_rebuilt(part.replace(held=rest), data, known, device, name))
    return program


def _of_torch(directory: Directory, name: str, device: Any, extra: dict[str, Any] | None) -> Program:
    """Return the program of a ``.pt2`` file. Raise `CheckpointError` for any other archive."""
    from metatensor.program import torch_export, torchscript

    if torch_export.is_archive(directory):
        exported = torch_export.File(directory)
        return torch_export.program_of(exported, exported.module(device, extra))
    if torchscript.is_archive(directory):
        raise CheckpointError(name, "it is a TorchScript archive, which has no sizes: load it with metatensor.program.torchscript.load, "
                              "and trace that module")  # fmt: skip
    raise CheckpointError(name, f"it is not a program: it has no {HEAD}")


def _program(directory: Directory, prefix: str, known: dict[str, bytes]) -> Program:
    """Return the program in the members below a prefix, with its further ones if it has named sizes. Add bytes to `known`."""
    if prefix + HEAD not in directory or prefix + CALLS not in directory:
        raise Malformed(f"there is no program in {prefix!r:.40}")
    head, rows = json.loads(directory.read(prefix + HEAD, MOST)), directory.read(prefix + CALLS, MOST).decode("utf-8").splitlines()
    reader = _Reader(head)
    program = reader.program(rows)
    known.update(reader.known(program))
    if head["version"] != SIZED or prefix:
        return program
    if SIZES not in directory:
        raise Malformed(f"it has no {SIZES}")
    from metatensor.program.sizes.saving import rebuilt

    return rebuilt(json.loads(directory.read(SIZES, MOST)), program, lambda prefix: _program(directory, prefix, known))


def names_with_data(path: str) -> set[str]:
    """Return the names of the parameters, buffers and constants whose data is in a program file. The data is not read."""
    with shared(), open(path, "rb") as file:
        directory = Directory(Source(file, path))
        if HEAD not in directory:
            from metatensor.program import torch_export

            return {one.name for one in torch_export.File(directory).arguments if one.kind != "user"}
        if TENSORS not in directory:
            return set()
        begin, size = directory.place_of(TENSORS)
        return set(inspect_tensors(io.BufferedReader(_Window(file, begin, size))).tensors)  # type: ignore[arg-type]


def _rebuilt(program: Program, data: dict[str, Tensor], known: dict[str, bytes], device: Any, file: str) -> dict[str, Tensor]:
    """Return the parameters, buffers and constants with the layouts and the sharing that they had."""
    by_storage: dict[int, list[tuple[str, Value]]] = {}
    for name, value in program.held.items():
        by_storage.setdefault(value.storage, []).append((name, value))
    made: dict[str, Tensor] = {}
    for group in by_storage.values():
        found = all(name in data for name, _ in group)
        for name, value in group:
            if found and (tuple(data[name].shape) != value.shape or data[name].dtype is not value.dtype):
                has = f"{data[name].dtype}{list(data[name].shape)}"
                raise CheckpointError(file, f"{name!r:.80} has {has} as data; the program has {value!r}")
        on_meta = device is not None and mt.device(device).type == "meta"
        whole = next((known[name] for name, _ in group if name in known), None)
        if whole is not None and len(whole) < max(end_of(value) for _, value in group):
            raise CheckpointError(file, f"the layout of {group[0][0]!r:.80} needs more than the {len(whole):,} bytes that it has")
        place = device if device is not None else "cpu" if found else "meta"
        if not found and whole is not None:
            with keep_constants():
                base = made_of_bytes(whole, (len(whole),), mt.uint8)
                tensors = {name: base.view(value.dtype).as_strided(value.shape, value.stride, value.offset) for name, value in group}
            if device is not None and not on_meta:
                tensors = {name: with_values(tensor, device) for name, tensor in tensors.items()}  # type: ignore[misc]
        elif not found and any(program.kinds[name] != "parameter" for name, _ in group):
            base = mt.empty(max(_extent(value) for _, value in group), dtype=mt.uint8, device="meta")  # a run says that it has no data
            tensors = {name: base.view(value.dtype).as_strided(value.shape, value.stride, value.offset) for name, value in group}
        elif len(group) == 1 and _contiguous(group[0][1]):
            name, value = group[0]
            tensors = {name: data[name].to(place) if found else mt.empty(value.shape, dtype=value.dtype, device=place)}
        else:
            if not found:  # takes no memory on meta, whatever the layout
                place = "meta" if device is None else device
            need = max(_extent(value) for _, value in group)
            if found and need > 4 * sum(t.nbytes for t in (data[name] for name, _ in group)) + (1 << 20):
                raise CheckpointError(file, f"the layout of {group[0][0]!r:.80} needs {need:,} bytes, far more than its data")
            base = mt.empty(need, dtype=mt.uint8, device=place)
            tensors = {name: base.view(value.dtype).as_strided(value.shape, value.stride, value.offset) for name, value in group}
            for name, tensor in tensors.items() if found and not base.is_meta else ():
                fill(tensor, data[name])
        for name, value in group:
            tensor = tensors[name].detach()
            if program.kinds[name] == "parameter":
                tensor = mt.nn.Parameter(tensor, requires_grad=value.requires_grad)
            made[name] = tensor
    return {name: made[name] for name in program.held}


def _contiguous(value: Value) -> bool:
    expected = 1
    for n, stride in zip(reversed(value.shape), reversed(value.stride)):
        if n != 1 and stride != expected:
            return False
        expected *= max(n, 1)
    return value.offset == 0


def _extent(value: Value) -> int:
    """Return the number of bytes that a layout needs, rounded up to whole elements of 16 bytes."""
    return -(-end_of(value) // 16) * 16


def end_of(value: Value) -> int:
    """Return the number of bytes that a layout needs."""
    return (value.offset + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride) if n) + 1) * value.dtype.itemsize


class _Reader:
    """Builds a program from JSON. Every number is checked before it is used."""

    def __init__(self, head: Any) -> None:
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise Malformed(f"{HEAD} does not say that it is one")
        if type(head.get("version")) is not int or head["version"] not in (VERSION, SIZED):
            raise Malformed(f"its version is {head.get('version')!r:.20}, this reads versions {VERSION} and {SIZED}")
        self.head = head
        self.values = {value.number: value for value in map(_value, self.of("values", list))}

    def of(self, key: str, kind: type) -> Any:
        found = self.head.get(key)
        if not isinstance(found, kind):
            raise Malformed(f"{key!r} must be a {kind.__name__}")
        return found

    def value(self, number: Any) -> Value:
        if type(number) is not int or number not in self.values:
            raise Malformed(f"there is no value {number!r:.60}")
        return self.values[number]

    def program(self, rows: list[str]) -> Program:
        modules = self.of("modules", list)
        if not modules or not all(isinstance(path, str) for path in modules):
            raise Malformed("'modules' must be names")
        held, kinds = {}, {}
        for row in self.of("held", list):
            name, number, kind, _ = _row_of(row, (str, int, str, bool), "held")
            if kind not in ("parameter", "buffer", "constant") or name in held:
                raise Malformed(f"{name!r:.60} is held twice, or as {kind!r:.20}")
            held[name], kinds[name] = self.value(number), kind
        tied = self.of("tied", dict)
        if not all(isinstance(own, str) and own in held for own in tied.values()):
            raise Malformed("a tied name belongs to nothing")
        arguments = decoded(self.of("arguments", list), self.values)
        if len(arguments) != 2 or not isinstance(arguments[0], tuple) or not isinstance(arguments[1], dict):
            raise Malformed("'arguments' must be a tuple and a dict")
        names = self.head.get("names", [])  # files of earlier releases have none
        if not isinstance(names, list) or len(names) > len(arguments[0]) or not all(isinstance(name, str) for name in names):
            raise Malformed("'names' must be names of positional arguments")
        calls = [self.call(json.loads(row), len(modules)) for row in rows if row]
        self.check_order(calls, [*leaves(Value, arguments), *held.values()])
        effects = []
        for row in self.of("effects", list):
            kind, name, number = _row_of(row, (str, str, int), "effects")
            if kind not in ("grad", "replaced") or name not in held and kind == "grad":
                raise Malformed(f"{kind!r:.20} of {name!r:.60} is not an effect")
            effects.append(Effect(kind, name, self.value(number)))
        releases = {}
        for row in self.of("releases", list):
            at, storages = _row_of(row, (int, list), "releases")
            if not all(type(s) is int for s in storages):
                raise Malformed("'releases' must be storages")
            releases[at] = tuple(storages)
        reads = [(at, op, self.value(number)) for at, op, number in
                 (_row_of(row, (int, str, int), "reads") for row in self.of("reads", list))]  # fmt: skip
        default = self.head.get("default_dtype")
        if default is not None and not dtype_of(default).is_floating_point:
            raise Malformed(f"the default dtype cannot be {default!r:.40}")
        return Program(self.of("name", str), arguments=tuple(arguments), output=decoded(self.head.get("output"), self.values), calls=calls,
                       held=held, kinds=kinds, tied=tied, effects=effects, releases=releases, modules=modules, reads=reads,
                       names=names, default_dtype=None if default is None else dtype_of(default))  # fmt: skip

    def known(self, program: Program) -> dict[str, bytes]:
        """Return the bytes of storages on meta whose values follow from constants, by the name of a tensor of each."""
        found = {}
        given = self.head.get("known", {})
        if not isinstance(given, dict):
            raise Malformed("'known' must be a dict")
        for name, text in given.items():
            data = decoded({"bytes": text}, {})
            value = program.held.get(name)
            if value is None or len(data) % value.dtype.itemsize:
                raise Malformed(f"there are {len(data):,} bytes for {name!r:.60}, which has another size or does not exist")
            found[name] = data
        return found

    def call(self, row: Any, modules: int) -> ProgramCall:
        name, args, kwargs, result, writes, grad, backward, module = _row_of(row, (str, list, dict, object, list, bool, bool, int), CALLS)
        op = registry.get(name)
        if op is None:
            raise Malformed(f"there is no operator {name!r:.80}; if a package defines it, import that first")
        if not 0 <= module < modules:
            raise Malformed(f"there is no module {module}")
        given = decoded(args, self.values)
        named = {key: decoded(item, self.values) for key, item in kwargs.items()}
        if name == "_from_host":
            _check_bytes(given, named)
        elif any(isinstance(a, bytes) for a in (*given, *named.values())):
            raise Malformed(f"{name} takes no bytes")
        made = decoded(result, self.values)
        items = made if isinstance(made, (tuple, list)) else [made]
        if not all(item is None or isinstance(item, (Value, tuple, list)) for item in items):
            raise Malformed("a result must be a value, or several")
        return ProgramCall(op, given, named, made, [self.value(number) for number in writes], grad, backward, module)

    def check_order(self, calls: list[ProgramCall], known: Iterable[Value]) -> None:
        """Raise unless every value is defined before it is used."""
        there = {value.number for value in known}
        for call in calls:
            for value in leaves(Value, (call.args, call.kwargs)):
                if value.number not in there:
                    raise Malformed(f"{call.op.name} uses value {value.number} before it is made")
            there.update(value.number for value in leaves(Value, call.result))


def _row_of(row: Any, kinds: tuple[type, ...], what: str) -> list[Any]:
    if not isinstance(row, list) or len(row) != len(kinds) or not all(
        kind is object or type(item) is kind for item, kind in zip(row, kinds)
    ):
        raise Malformed(f"a row of {what!r} is malformed: {str(row)[:60]!r}")
    return row


def _value(row: Any) -> Value:
    number, storage, dtype, device, offset, shape, stride, conj, neg, grad = _row_of(
        row, (int, int, str, str, int, list, list, bool, bool, bool), "values")  # fmt: skip
    whole = (*shape, *stride, offset, number, storage)
    possible = all(type(n) is int and 0 <= n < 1 << 62 for n in whole) and max(number, storage) < 1 << 31
    if not possible or len(shape) != len(stride) or len(shape) > 64:
        raise Malformed(f"value {number} has an impossible layout")
    return Value(number, storage, offset, shape, stride, dtype_of(dtype), decoded({"device": device}, {}), conj, neg, grad)


def _check_bytes(args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise unless the bytes of a constant are those of its shape."""
    if len(args) != 5 or kwargs or not isinstance(args[0], bytes):
        raise Malformed("a constant needs its bytes, sizes, strides, dtype and device")
    count = 1
    for n in args[1] if isinstance(args[1], (tuple, list)) else ():
        if type(n) is not int or n < 0:
            raise Malformed("a constant has impossible sizes")
        count *= n
    if len(args[0]) != count * getattr(args[3], "itemsize", -1):
        raise Malformed(f"a constant has {len(args[0]):,} bytes, which is not what its shape needs")
