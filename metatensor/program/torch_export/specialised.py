"""The program of a ``.pt2`` file for the sizes at which it was exported."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor.checkpoint import CheckpointError
from metatensor.program.program import Program
from metatensor.program.reads import dependent_reads, describe
from metatensor.program.torch_export.archive import File
from metatensor.program.torch_export.module import ExportedModule
from metatensor.program.tracing import trace

__all__ = ["program_of"]


def program_of(file: File, module: ExportedModule, *, warn: bool = True) -> Program:
    """Return the program of an exported module for the sizes at which it was exported. It shares the tensors of the module.

    The module is traced on meta. If the calls depend on values, it is traced on cpu with the arguments saved in the file.

    Parameters
    ----------
    file : File
        The file.
    module : ExportedModule
        Its module.
    warn : bool
        Whether to issue a UserWarning if the program holds only for certain values, for example because it contains one
        of two branches. Default True.

    Raises
    ------
    NotImplementedError
        If the graph calls operators that metatensor does not have.
    CheckpointError
        If the file gives no sizes, or the graph does not run.
    """
    try:
        args, kwargs = file.example()
        there = copy.deepcopy(module).to("meta")
        try:
            with mt.device("meta"):
                program = trace(there, *args, **kwargs)
        except DataDependentError:
            sample = file.sample()
            if sample is None:
                raise
            there = copy.deepcopy(module).to("cpu")
            program = trace(there, *sample[0], **sample[1])
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as error:
        if isinstance(error, (NotImplementedError, CheckpointError)):
            raise
        raise CheckpointError(file.name, f"its graph does not run: {error}") from error
    reads = dependent_reads(program) if warn else []
    if reads:
        warnings.warn(
            f"{file.name}: the program repeats what the graph did for the arguments in the file, because the graph reads values "
            f"({describe(program, reads[0])}); metatensor.program.torch_export.load returns a module that reads them in each call",
            stacklevel=3,
        )  # fmt: skip
    found = _named(there, module)
    constants = {name: found[id(t)][0] for name, t in program.tensors.items() if id(t) in found and program.kinds[name] == "constant"}
    names = {name: constants.get(name, name) for name in program.tensors}
    if len(set(names.values())) < len(names):  # a constant with the name of a parameter
        names = {name: name for name in names}
    return program.replace(
        name=file.model if not file.old else "exported", names=file.names if _flat(program, file.names) else (),
        tensors={names[name]: found.get(id(t), (name, t))[1] for name, t in program.tensors.items()},
        held={names[name]: value for name, value in program.held.items()},
        kinds={names[name]: kind for name, kind in program.kinds.items()},
    )  # fmt: skip


def _flat(program: Program, names: list[str]) -> bool:
    """Return True if a program takes one positional argument for each of the names."""
    return len(program.arguments[0]) == len(names)


def _named(there: Any, module: Any) -> dict[int, tuple[str, Any]]:
    """Return the tensors of a module and their names, by the ids of the corresponding tensors of its copy."""
    found: dict[int, tuple[str, Any]] = {}
    for (path, part), other in zip(there.named_modules(), module.modules()):
        for mine, its in ((part._parameters, other._parameters), (part._buffers, other._buffers)):
            found.update({id(t): (f"{path}.{name}".lstrip("."), its[name]) for name, t in mine.items() if t is not None})
    found.update({id(t): (name, module._constants[name]) for name, t in there._constants.items()})
    return found
