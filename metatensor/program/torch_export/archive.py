"""Reading ``.pt2`` files, which ``torch.export.save`` of PyTorch writes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint import load as load_tensors
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.budget import Claims, current, shared
from metatensor.checkpoint.source import Source
from metatensor.program.encoding import Malformed
from metatensor.program.torch_export.graph import Graph, Name, decoded, dtype_of, field, kind_of
from metatensor.program.torch_export.module import Argument, ExportedModule, Result
from metatensor.program.torch_export.sizes import name_of
from metatensor.program.torch_export.structure import Structure

__all__ = ["File", "NotExported", "is_archive", "load", "opened"]

MOST = 1 << 30
"""Maximum bytes of a text member."""
_RATIO = 32
"""Ratio of decompressed to compressed size above which the budget is charged."""
_MAJOR = 8
"""The latest major version of the schema that this reads."""
_OLD = "serialized_exported_program.json"


def is_archive(directory: Directory) -> bool:
    """Return whether a zip file is an exported program."""
    return _OLD in directory or any("models/" in name and name.endswith(".json") for name in directory)


def load(
    f: str | os.PathLike[str] | BinaryIO, *, device: Any = None, extra: dict[str, Any] | None = None, module_class: Any = ExportedModule
) -> Any:
    """Read a module from a ``.pt2`` file that ``torch.export.save`` of PyTorch wrote. Nothing in it is executed.

    Parameters
    ----------
    f : str, path or binary file
        The file.
    device : device, optional
        Where its tensors are placed. Default: cpu.
    extra : dict, optional
        Its values are replaced by the bytes of the file's extra members, for the keys that the file has.
    module_class : type, optional
        A subclass of `ExportedModule`.

    Returns
    -------
    ExportedModule
        The module. Its ``missing_operators`` lists the operators that it calls but metatensor lacks.

    Raises
    ------
    CheckpointError
        If the file is not an exported program, damaged, or of a later version.
    """
    with opened(f) as file:
        return file.module(device, extra, module_class)


@contextmanager
def opened(f: str | os.PathLike[str] | BinaryIO) -> Iterator[File]:
    """Return a context manager that opens a file and yields its exported program."""
    if not isinstance(f, (str, bytes, os.PathLike)):
        yield File(Directory(Source(f, getattr(f, "name", "archive"))))
        return
    with open(f, "rb") as file:
        yield File(Directory(Source(file, os.fsdecode(os.fspath(f)))))


class NotExported(CheckpointError):
    """Raised for a zip file that is not an exported program of PyTorch."""


class File:
    """An exported program in a file.

    Parameters
    ----------
    directory : Directory
        The file.

    Attributes
    ----------
    graph : Graph
        The graph.
    names : list of str
        The names of the arguments, flattened.
    """

    def __init__(self, directory: Directory) -> None:
        self.name: str = directory.file
        self.directory = directory
        with shared():
            if not is_archive(directory):
                raise NotExported(self.name, "it is not an exported program: it has no models/*.json")
            self.old = _OLD in self.directory
            self.prefix = "" if self.old else self._prefix()
            self.model = self._model()
            self._guarded(self._read)

    def _prefix(self) -> str:
        return next(member.partition("models/")[0] for member in self.directory if "models/" in member and member.endswith(".json"))

    def _guarded(self, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except (Malformed, RecursionError) as error:
            raise CheckpointError(self.name, f"it is not an exported program: {error}") from None

    def _model(self) -> str:
        if self.old:
            return _OLD
        found = [m[len(self.prefix) + 7 : -5] for m in self.directory if m.startswith(f"{self.prefix}models/") and m.endswith(".json")]
        if "model" in found or len(found) == 1:
            return "model" if "model" in found else found[0]
        raise CheckpointError(self.name, f"it has several models: {', '.join(one[:40] for one in found[:10])}")

    def _json(self, member: str) -> Any:
        if member not in self.directory:
            raise Malformed(f"there is no member {member[:80]!r}")
        try:
            return json.loads(self._bytes(member, MOST))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"{member[:80]!r} is no JSON: {str(error)[:80]}") from None

    def _bytes(self, member: str, most: int = MOST << 6) -> Any:
        """Return the bytes of a member. Members with an implausible compression ratio are charged to the budget."""
        _, packed = self.directory.place_of(member)
        size = self.directory.size_of(member)
        if size > _RATIO * packed:
            current().charge(self.name, size - _RATIO * packed, f"{member[:60]!r} is decompressed to {size:,} bytes, which is")
        return self.directory.read(member, most)

    def _read(self) -> None:
        head = self._json(_OLD if self.old else f"{self.prefix}models/{self.model}.json")
        version = head.get("schema_version") if isinstance(head, dict) else None
        major = version.get("major") if isinstance(version, dict) else version
        if type(major) is not int or major > _MAJOR:
            raise Malformed(f"the version of its schema is {major!r:.20}, this reads versions up to {_MAJOR}")
        made = field(head, "graph_module", dict, "the file")
        described = field(made, "graph", dict, "the file")
        try:
            self.graph = Graph(described)
        except NotImplementedError as error:
            raise CheckpointError(self.name, f"it cannot be read: {error}") from None
        self.metas = field(described, "tensor_values", dict, "the graph")
        self.ranges = _ranges(head.get("range_constraints"))
        signature = field(made, "signature", dict, "the file")
        inputs, outputs = field(signature, "input_specs", list, "the signature"), field(signature, "output_specs", list, "the signature")
        if len(inputs) != len(self.graph.inputs) or len(outputs) != len(self.graph.outputs):
            raise Malformed("the signature does not have the inputs and outputs of the graph")
        self.persistent: dict[str, bool] = {}
        self.arguments = [self._argument(one, at) for one, at in zip(inputs, self.graph.inputs)]
        self.results = [_result(one) for one in outputs]
        users = {one.name for one in self.arguments if one.kind == "user"}
        held = {one.name for one in self.arguments if one.kind in ("parameter", "buffer")}
        for result in self.results:
            if result.kind == "argument" and result.name not in users or result.kind in ("buffer", "parameter") and result.name not in held:
                raise Malformed(f"it writes to {result.name[:60]!r}, which it does not have")
        self.names = [one.name for one in self.arguments if one.kind == "user"]
        calls = field(made, "module_call_graph", list, "the file")
        root = next((one for one in calls if isinstance(one, dict) and one.get("fqn") == ""), None)
        whole = field(root, "signature", dict, "the outermost module")
        fields = {str(key): list(value.get("field_names") or ()) for key, value in (made.get("treespec_namedtuple_fields") or {}).items()
                  if isinstance(value, dict)}  # fmt: skip
        self.structures = Structure.of(whole.get("in_spec"), fields), Structure.of(whole.get("out_spec"), fields)
        if self.structures[0].count != len(self.names) or self.structures[1].count != sum(one.kind == "user" for one in self.results):
            raise Malformed("the structures of the arguments and of the result do not have the values of the graph")

    def _argument(self, spec: Any, at: Any) -> Argument:
        kind, content = kind_of(spec, "an input of the signature")
        where = "an input of the signature"
        if kind in ("parameter", "buffer", "tensor_constant"):
            name = field(content, {"tensor_constant": "tensor_constant_name"}.get(kind, f"{kind}_name"), str, where)
            if kind == "buffer":
                self.persistent[name] = content.get("persistent") is not False
            return Argument("constant" if kind == "tensor_constant" else kind, name)
        if kind == "token":
            return Argument("token", "")
        if kind == "constant_input":
            value = decoded(field(content, "value", dict, where), where)
            return Argument("user", field(content, "name", str, where), value=value)
        if kind != "user_input":
            raise NotImplementedError(f"an input of kind {kind[:40]!r}")
        given = decoded(field(content, "arg", dict, where), where)
        if not isinstance(given, Name):
            return Argument("user", "argument", value=given)
        meta = self.metas.get(given)
        if meta is None:
            return Argument("user", str(given), value=...)
        sizes = tuple([_size(one)[0] for one in field(meta, "sizes", list, where)])
        return Argument("user", str(given), sizes, dtype_of(meta.get("dtype")))

    def example(self, device: Any = "meta") -> tuple[Any, Any]:
        """Return arguments and keyword arguments of the sizes at which the program was exported, without values."""
        values: list[Any] = []
        for one in self.arguments:
            if one.kind != "user":
                continue
            if one.sizes is None:
                values.append(None if one.value is ... else one.value)
                continue
            meta = self.metas[one.name]
            sizes = [_size(size)[1] for size in meta["sizes"]]
            if any(size is None for size in sizes):
                raise CheckpointError(
                    self.name, f"it does not say with which sizes argument {one.name[:60]!r} was exported; load it with "
                    "metatensor.program.torch_export.load, and trace that module",
                )  # fmt: skip
            values.append(mt.empty([size or 0 for size in sizes], dtype=one.dtype, device=device))
        found = self.structures[0].nested(values)
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], tuple) or not isinstance(found[1], dict):
            raise CheckpointError(self.name, "its arguments are not a tuple and a dict")
        return found

    def sample(self) -> tuple[Any, Any] | None:
        """Return the arguments that were saved with the program, or None if there are none."""
        member = "serialized_example_inputs.pt" if self.old else f"{self.prefix}data/sample_inputs/{self.model}.pt"
        if member not in self.directory:
            return None
        found = load_tensors(io.BytesIO(self._bytes(member)))
        return (tuple(found[0]), dict(found[1])) if isinstance(found, (tuple, list)) and len(found) == 2 else None

    # Tensors -----------------------------------------------------------------------------------------------

    def module(self, device: Any = None, extra: dict[str, Any] | None = None, module_class: Any = ExportedModule) -> Any:
        """Return the module. See `load`."""
        with shared():
            return self._guarded(self._module, device, extra, module_class)

    def _module(self, device: Any, extra: dict[str, Any] | None, module_class: Any) -> Any:
        made = module_class(self.graph, self.arguments, self.results, self.structures, self.ranges)
        found = self._tensors("cpu" if device is None else device)
        parameters: dict[int, Any] = {}
        for one in self.arguments:
            if one.kind not in ("parameter", "buffer", "constant"):
                continue
            if not isinstance(found.get(one.name), Tensor):
                raise Malformed(f"it has no tensor {one.name[:80]!r}")
            tensor = found[one.name]
            if one.kind == "constant":
                made._constants[one.name] = tensor.detach()
                continue
            above, _, last = one.name.rpartition(".")
            try:
                part = made._part(above)
                if one.kind == "parameter":
                    if id(tensor) not in parameters:
                        parameters[id(tensor)] = mt.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
                    part.register_parameter(last, parameters[id(tensor)])
                else:
                    part.register_buffer(last, tensor.detach(), persistent=self.persistent.get(one.name, True))
            except (AttributeError, KeyError, TypeError) as error:
                raise Malformed(f"{one.name[:80]!r} is a name that no parameter or buffer has: {error}") from None
        for key in extra or ():
            for member in (f"{self.prefix}extra/{key}", f"extra_files/{key}"):
                if member in self.directory:
                    extra[key] = self._bytes(member, MOST)  # type: ignore[index]
        return made

    def _tensors(self, device: Any) -> dict[str, Any]:
        if self.old:
            found: dict[str, Any] = {}
            for member in ("serialized_state_dict.pt", "serialized_constants.pt"):
                if member in self.directory and self.directory.size_of(member):
                    part = load_tensors(io.BytesIO(self._bytes(member)), device)
                    if isinstance(part, dict):
                        found.update(part)
            return found
        found = {}
        total = sum(self.directory.size_of(member) for member in self.directory)
        claims = Claims(self.name, total, "tensors refer to bytes")
        for folder, what in (("weights", "weights"), ("constants", "constants")):
            member = f"{self.prefix}data/{folder}/{self.model}_{what}_config.json"
            if member in self.directory:
                rows = field(self._json(member), "config", dict, member[:60])
                found.update(self._folder(f"{self.prefix}data/{folder}/", rows, device, claims))
        return found

    def _folder(self, folder: str, rows: dict[str, Any], device: Any, claims: Claims) -> dict[str, Any]:
        """Return the tensors of a folder by name. Tensors of the same member share memory."""
        bases: dict[str, Any] = {}
        same: dict[Any, Any] = {}
        found: dict[str, Any] = {}
        for name, row in rows.items():
            member = folder + field(row, "path_name", str, "a tensor")
            if member not in self.directory:
                raise Malformed(f"there is no member {member[:80]!r}")
            if row.get("use_pickle"):
                found[name] = load_tensors(io.BytesIO(self._bytes(member)), device)
                continue
            meta = field(row, "tensor_meta", dict, "a tensor")
            dtype = dtype_of(meta.get("dtype"))
            sizes = [_size(one)[1] for one in field(meta, "sizes", list, "a tensor")]
            strides = [_size(one)[1] for one in field(meta, "strides", list, "a tensor")]
            offset = _size(meta.get("storage_offset"))[1]
            whole = (*sizes, *strides, offset)
            if not all(type(n) is int and 0 <= n < 1 << 62 for n in whole) or len(sizes) != len(strides) or len(sizes) > 64:
                raise Malformed(f"tensor {name[:60]!r} has an impossible layout")
            nbytes = self.directory.size_of(member)
            layout = [(n or 0, s or 0) for n, s in zip(sizes, strides)]
            last = (offset or 0) + sum((n - 1) * s for n, s in layout) + 1 if 0 not in sizes else 0
            if last * dtype.itemsize > nbytes:
                raise Malformed(f"tensor {name[:60]!r} needs {last * dtype.itemsize:,} bytes; {member[:60]!r} has {nbytes:,}")
            key = (member, dtype, tuple(sizes), tuple(strides), offset)
            if key not in same:
                if member not in bases:
                    claims.add(nbytes)
                    # Numbers among the constants keep their values on meta, because sizes may depend on them.
                    number = folder.endswith("constants/") and not sizes and nbytes <= 16 and mt.device(device).type == "meta"
                    bases[member] = self._base(member, nbytes, "cpu" if number else device)
                made = bases[member][: nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
                same[key] = made.as_strided(sizes, strides, offset)
                same[key].requires_grad_(bool(row.get("is_param")) and meta.get("requires_grad") is not False and dtype.is_floating_point)
            found[name] = same[key]
        return found

    def _base(self, member: str, nbytes: int, device: Any) -> Any:
        """Return the bytes of a member as a tensor."""
        if mt.device(device).type == "meta":
            return mt.empty(nbytes, dtype=mt.uint8, device=device)
        if not nbytes:
            return mt.empty(0, dtype=mt.uint8, device=device)
        return mt.frombuffer(bytearray(self._bytes(member)), dtype=mt.uint8).to(device)


def _ranges(made: Any) -> dict[str, tuple[int | None, int | None]]:
    found = {}
    for key, value in made.items() if isinstance(made, dict) else ():
        low, high = (value.get("min_val"), value.get("max_val")) if isinstance(value, dict) else (None, None)
        if any(n is not None and type(n) is not int for n in (low, high)):
            raise Malformed(f"the range of {key[:40]!r} is not given by integers")
        found[key] = low, high
    return found


def _size(made: Any) -> tuple[Any, int | None]:
    """Return a size as a number or the text of an expression, and its value at export."""
    key, value = kind_of(made, "a size")
    if key == "as_int" and type(value) is int:
        return value, value
    if key != "as_expr":
        raise Malformed("a size is neither a number nor an expression")
    text, hint = field(value, "expr_str", str, "a size"), value.get("hint")
    number = hint.get("as_int") if isinstance(hint, dict) else None
    return name_of(text) or text, number if type(number) is int and 0 <= number < 1 << 62 else None


def _result(spec: Any) -> Result:
    kind, content = kind_of(spec, "an output of the signature")
    where = "an output of the signature"
    if kind == "user_output":
        return Result("user")
    if kind == "buffer_mutation":
        return Result("buffer", field(content, "buffer_name", str, where))
    if kind == "parameter_mutation":
        return Result("parameter", field(content, "parameter_name", str, where))
    if kind == "user_input_mutation":
        return Result("argument", field(content, "user_input_name", str, where))
    if kind == "token":
        return Result("token")
    raise NotImplementedError(f"an output of kind {kind[:40]!r}")

