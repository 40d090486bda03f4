"""``metatensor plan``."""

from __future__ import annotations

import json
from typing import Any

import click

from metatensor.checkpoint.errors import CheckpointError, printable
from metatensor.cli.configs import config_in, without_cache
from metatensor.cli.contents import printable_lines
from metatensor.cli.inputs import dtype_named
from metatensor.cli.plan_inputs import Arguments, Price, arguments_of, changes_of, fail, made_model, numbers, what_if
from metatensor.cli.plan_training import TRAINING, plan_training, train_options
from metatensor.cli.request import Request, model_options
from metatensor.cli.sizes import Size, parse_bytes, parse_share
from metatensor.cli.terminal import output_on_stderr
from metatensor.cli.training_options import loss_of

__all__ = ["command"]

CHANGES = ("sequence", "devices", "price")
"""What ``--what-if`` can change besides named sizes of the inputs, without --train."""
KINDS = {
    **dict.fromkeys(("cache_dtype", "block", "chunk", "batches", "utilization"), ("serve",)),
    "tensor": ("serve", "train"), "max_memory": ("serve", "train"),
    **dict.fromkeys(("batch", "disk_bandwidth", "lora"), ("neither",)), "weights": ("serve", "neither"),
    **{name: ("train",) for name in TRAINING if name != "tensor"},
    **dict.fromkeys(("loss", "optimizer", "recompute"), ("train", "lora")),
}  # fmt: skip
"""The kinds of plans that an option belongs to."""



@click.command("plan")
@model_options
@click.option("--devices", metavar="DEVICES", required=True, help='The devices: "8xH100", "1x4090,1x3090,cpu:64GB,disk", or '
              'with --train a topology: "64xH100", "4xdgx-h100, 400Gb/s IB".')
@click.option("--serve", is_flag=True, help="Plan an inference server: context, concurrent sequences, tokens per second.")
@click.option("--context", type=click.IntRange(min=1), metavar="N", help="Tokens of a sequence, the size that is named sequence "
              "[default: 2048; 8192 with --serve].")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Without --serve: number of sequences [default: 1].")
@click.option("--disk-bandwidth", type=Size(parse_bytes), metavar="SIZE", help="Without --serve: bytes that are read from the disk in a "
              "second (3GB).")
@click.option("--cache-dtype", metavar="DTYPE", help="With --serve: dtype of keys and values [default: as the model makes them].")
@click.option("--block", type=click.IntRange(min=1), metavar="N", help="With --serve: tokens of a block of a paged cache [default: 1].")
@click.option("--chunk", type=click.IntRange(min=1), metavar="N", help="With --serve: tokens of a prompt that are processed together "
              "[default: 8192].")
@click.option("--batches", metavar="LIST", help='With --serve: numbers of sequences in the table, such as "1,8,64".')
@click.option("--utilization", type=Size(parse_share), metavar="SHARE", help="With --serve: used part of the memory [default: 0.9].")
@click.option("--max-memory", type=Size(parse_bytes), metavar="SIZE", help="With --serve or --train: bytes of a device to use.")
@click.option("--lora", metavar="RANK[:PATTERN]", help="Without --serve and --train: place a step of LoRA training (--loss, --optimizer, "
              "--recompute) instead of a decode step.")
@train_options
@click.option("--weights", metavar="CHECKPOINT", help="A checkpoint whose header gives the bytes of the weights "
              "[default: that of the folder].")
@click.option("--price", type=Price(), metavar="PRICE", help='Price of a device for an hour ("2.50/h"), for prices of steps and tokens.')
@click.option("--what-if", metavar="NAME=VALUE", help='Also plan with another "sequence", "devices" or "price", with --train '
              '"global_batch", or another size that inputs name. Separate several by semicolons.')
@click.option("--where", metavar="SIZES", multiple=True, help='The values of other named sizes in inputs: "h in 224".')
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(request: Request, devices: str, serve: bool, train: bool, as_json: bool, where: tuple[str, ...], **options: Any) -> None:
    """Plan how MODEL is used on devices. They need not be present.

    With --serve, report what an inference server can do on one kind of device. With --train, rank the layouts of a training
    step: data, tensor, sequence and pipeline parallelism, sharding, recomputation and micro-batches. Else place the parts of the model on
    the devices, the host's memory and the disk, and print a device_map as accelerate takes it.

    MODEL and inputs are those of estimate. The model's own code runs on meta, and no weights are read. Sizes of inputs that
    vary are named batch and sequence; the default input is int64[batch,sequence].

    \b
    metatensor plan model.py:GPT -i "int64[batch,1024]" --train --devices 64xH100 --global-batch 512 --explain 0,1
    metatensor plan Llama-3.1-70B/ --devices "1x4090,1x3090,cpu:64GB,disk"
    metatensor plan Llama-3.1-8B/ --serve --devices H100 --context 32768
    metatensor plan Llama-3.1-8B/ --serve --devices RTX-4090 --weights llama-3.1-8b-q4.gguf --cache-dtype float8_e4m3fn
    """
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    if serve and train:
        raise click.UsageError("--serve and --train are different plans; give one of them")
    kind = "train" if train else "serve" if serve else "neither"
    if "loss" in given and not train and "lora" in given:
        given["loss"] = loss_of(given["loss"], request.torch)
    for name in given:
        if name in KINDS and kind not in KINDS[name] and not ("lora" in KINDS[name] and kind == "neither" and "lora" in given):
            wanted = " or ".join(f"--{one}" for one in KINDS[name] if one != "neither")
            why = f"needs {wanted}" if wanted and kind == "neither" else f"does not go with --{kind}"
            raise click.UsageError(f"--{name.replace('_', '-')} {why}")
    if train:
        return plan_training(request, devices, where, given, as_json)
    change = changes_of(given.pop("what_if", None), CHANGES, request.texts)
    model = made_model(request)
    from metatensor.plan.devices import DeviceError

    try:
        found = _planned(request, model, devices, where, dict(given), serve, {})
        other = _planned(request, model, devices, where, dict(given), serve, dict(change)) if change else None
    except DeviceError as error:
        raise click.BadParameter(printable(str(error).removeprefix("devices: ")), param_hint="--devices") from None
    except CheckpointError as error:
        raise click.ClickException(printable(str(error))) from None
    if as_json:
        row = found.to_dict()
        click.echo(json.dumps(row if other is None else {**row, "what_if": {**change, **other.to_dict()}}, indent=2))
    else:
        click.echo(printable_lines(str(found) if other is None else f"{found}\n\n{what_if(change)}\n\n{other}"))
    raise SystemExit(0 if found.fits else 1)


def _planned(
    request: Request, model: Any, devices: str, where: tuple[str, ...], given: dict[str, Any], serving: bool, change: dict[str, Any]
) -> Any:  # fmt: skip
    from metatensor import plan

    devices = change.pop("devices", devices)
    for name, option in (("sequence", "context"), ("price", "price")):
        if name in change:
            given[option] = change.pop(name)

    if "cache_dtype" in given:
        dtype = dtype_named(given["cache_dtype"])
        if dtype is None or not dtype.is_floating_point:
            raise click.BadParameter(f"{given['cache_dtype']!r} is not a floating-point dtype", param_hint="--cache-dtype")
        given["cache_dtype"] = dtype
    if "batches" in given:
        given["batches"] = numbers(given["batches"], "--batches")
    if "tensor" in given:
        given["tensor"] = numbers(given["tensor"], "--tensor", several=False)[0]
    given.setdefault("weights", _checkpoint_of(request.target))
    if serving:
        given.setdefault("context", 8192)
    arguments = arguments_of(request.texts or ("int64[batch,sequence]",), where, changed=change)
    if "lora" in given:
        model = without_cache(model)
    else:
        arguments = last_logits(model, arguments)
    try:
        with output_on_stderr():
            return (plan.serve if serving else plan.device_map)(model, devices=devices, arguments=arguments, **given)
    except (plan.DeviceError, CheckpointError):
        raise
    except (Exception, SystemExit) as error:
        if str(error).startswith(("serve: ", "device_map: ", "estimate_training: ")):
            text = printable(str(error).partition(": ")[2])
            raise click.UsageError(text) if isinstance(error, ValueError) else click.ClickException(text) from None
        fail(request, error)


def _checkpoint_of(target: str) -> str | None:
    """Return the checkpoint in the folder of a ``config.json``, or a GGUF file itself, else None."""
    from metatensor.checkpoint.sharded import file_in

    if target.endswith(".gguf"):
        return target
    config = config_in(target)
    if config is None or target.endswith(".json"):
        return None
    try:
        return file_in(target)
    except CheckpointError:
        return None


def last_logits(model: Any, arguments: Arguments) -> Arguments:
    """Make a model of transformers compute the logits of the last token only, as its ``generate`` does."""
    import inspect

    function = getattr(model, "forward", model)
    if "logits_to_keep" not in inspect.signature(function).parameters:
        return arguments

    def made(batch: int, length: int) -> tuple[tuple, dict[str, Any]]:
        args, kwargs = arguments(batch, length)
        return args, {"logits_to_keep": 1, **kwargs}

    return made
