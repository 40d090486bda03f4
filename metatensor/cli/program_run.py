"""``metatensor run PROGRAM``: run a saved program."""

from __future__ import annotations

import json
from typing import Any

import click

import metatensor as mt
from metatensor._core.units import bytes_text, count_text
from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import text
from metatensor.cli.files import check_folder
from metatensor.cli.inputs import InputError, parse_input
from metatensor.cli.onnx_contents import traced
from metatensor.cli.programs import bound, is_program, opened, places, type_text
from metatensor.cli.terminal import Terminal
from metatensor.deferred.known import is_constant

__all__ = ["command"]


@click.command("run PROGRAM")
@click.option("--device", metavar="DEVICE", help="Where to run: meta, cpu, or a device of a plugin [default: meta].")
@click.option("--input", "-i", "inputs", multiple=True, metavar="INPUT",
              help='An input, as for trace: a tensor ("int64[1,1024]") or a Python value [default: those of the trace].')  # fmt: skip
@click.option("--weights", metavar="CHECKPOINT", type=click.Path(exists=True), help="Parameters and buffers, by name.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs and of the program's random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--output", "-o", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="Save the outputs as safetensors.")
@click.argument("path", metavar="PROGRAM")
def command(
    device: str | None, inputs: tuple[str, ...], weights: str | None, seed: int, as_json: bool, output: str | None, path: str
) -> None:
    """Run PROGRAM, a file that `metatensor trace` wrote, or an ONNX model, and print its outputs.

    On meta, the FLOPs and the peak memory of the run are printed, and nothing is computed. On other devices, inputs of a
    floating-point dtype are filled with standard normal numbers, and all others with zeros.

    \b
    metatensor run model.mtp
    metatensor run model.mtp -i "float32[8,512]" --device cpu --weights model.safetensors
    metatensor run model.onnx -i "float32[1,3,224,224]" --device cpu
    """
    place = _device(device or "meta")
    meta = place.type == "meta"
    if meta and output is not None:
        raise click.UsageError("--output needs a device with data, such as --device cpu")
    if output is not None:
        check_folder(output, "--output")
    if is_program(path):
        program = opened(path, "meta" if meta else None)
        args, kwargs = _arguments(program, inputs)
        _check(program, args, kwargs)
    else:
        mt.manual_seed(seed)
        program, args = traced(path, place, *_given(inputs), fill=lambda nested: _filled(nested, place))
        kwargs = {}
    if weights is not None:
        program = bound(program, weights)
    lacking = [name for name, t in program.tensors.items() if t.is_meta and not is_constant(t)]
    if not meta and lacking:
        raise click.ClickException(printable(_lacking(path, program, lacking, weights)))
    found: dict[str, Any] = {"program": path, "device": str(place)}
    try:
        mt.manual_seed(seed)
        program = program.to(place)
        args, kwargs = _filled((args, kwargs), place)
        if meta:
            report = mt.analysis.estimate(program, *args, **kwargs)
            found.update(flops=report.flops, peak_bytes=report.peak.bytes)
        with mt.device(place):
            result = program(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise click.ClickException(printable(str(error))) from None
    except Exception as error:  # a file may contain anything
        raise click.ClickException(printable(f"{path} does not run on {place}: {type(error).__name__}: {error}")) from None
    tensors = {f"output{name}": t for name, t in places(mt.Tensor, result)}
    found["outputs"] = {name: _facts(t) for name, t in tensors.items()}
    if output is not None:
        _save(tensors, output)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    console = Terminal()
    for name, t in tensors.items():
        facts = found["outputs"][name]
        numbers = "".join(f", {key} {facts[key]:.6g}" for key in ("min", "mean", "max") if facts.get(key) is not None)
        console.print(text(f"{name}: {type_text(t)}{numbers}"))
    tail = ""
    if meta:
        tail = f", {count_text(found['flops'])} FLOPs, peak memory {bytes_text(found['peak_bytes'])} besides parameters and inputs"
    console.print(text(f"{program.name}: {len(program)} calls on {place}{tail}", style="bold"))


def _device(name: str) -> Any:
    try:
        made = mt.device(name)
        if made.type != "meta":
            mt.empty(0, device=made)
        return made
    except (RuntimeError, NotImplementedError) as error:
        raise click.BadParameter(printable(str(error)), param_hint="--device") from None


def _arguments(program: Any, inputs: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a run, tensors on meta: those of the trace, or those that are given."""
    from metatensor._core.capture import Value
    from metatensor.program.structure import mapped

    if not inputs:
        args, kwargs = mapped(lambda v: mt.empty(v.shape, dtype=v.dtype, device="meta"), Value, program.arguments)
        return list(args), kwargs
    return _given(inputs)


def _given(inputs: tuple[str, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Return the inputs of the command line, by position and by name."""
    positional, named = [], {}
    for one in inputs:
        try:
            name, value = parse_input(one)
        except InputError as error:
            raise click.BadParameter(printable(str(error)), param_hint="--input") from None
        if name is None:
            positional.append(value)
        elif name in named:
            raise click.BadParameter(printable(f"{name!r} is given twice"), param_hint="--input")
        else:
            named[name] = value
    return positional, named


def _check(program: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise a usage error if a program cannot take arguments."""
    from metatensor.program.running import matched

    try:
        one = program.at(**program.sizes_of(*args, **kwargs)) if hasattr(program, "sizes_of") else program
        matched(one, tuple(args), kwargs)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(printable(str(error)), param_hint="--input") from None


def _lacking(path: str, program: Any, names: list[str], weights: str | None) -> str:
    """Return the message about tensors that have no data, with their names, and how to give it."""
    named = [f"{program.kinds[name]} {name!r}" for name in names[:6]]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    many = f"{len(names)} of {len(program.held)} parameters, buffers and constants: {', '.join(named)}{more}"
    if weights is None:
        advice = "give --weights with a checkpoint that has these names, or use --device meta"
    else:
        advice = (f"{weights} lacks these names. A state_dict has neither constants nor buffers that are not persistent: add them to the "
                  "checkpoint, such as dict(model.named_buffers()), or trace the model with data and save that program")  # fmt: skip
    return f"{path} has no data for {many}; {advice}"


def _filled(nested: Any, place: Any) -> Any:
    """Return arguments with tensors on a device, in place of those on meta."""
    from metatensor.program.structure import mapped

    def made(t: Any) -> Any:
        if t.dtype.is_floating_point and place.type != "meta":
            return mt.randn(t.shape, device=place).to(t.dtype)
        return mt.zeros(t.shape, dtype=t.dtype, device=place)

    return mapped(made, mt.Tensor, nested)


def _facts(t: Any) -> dict[str, Any]:
    """Return the shape of a tensor, and the minimum, mean and maximum of its numbers if it has data."""
    found: dict[str, Any] = {"dtype": t.dtype.name, "shape": list(t.shape)}
    if not t.is_meta and t.numel() and not t.dtype.is_complex:
        wide = t.detach().to(mt.float64)
        found.update({key: getattr(wide, key)().item() for key in ("min", "mean", "max")})
    return found


def _save(tensors: dict[str, Any], output: str) -> None:
    from metatensor.checkpoint.saving import save

    try:
        save({name: t.detach().clone().contiguous() for name, t in tensors.items()}, output, format="safetensors")
    except OSError as error:
        raise click.ClickException(printable(f"{output}: {error.strerror or error}")) from None
