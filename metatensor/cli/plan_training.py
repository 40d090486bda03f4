"""``metatensor plan --train``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from metatensor.analysis.functions import as_module
from metatensor.checkpoint.errors import printable
from metatensor.cli.configs import without_cache
from metatensor.cli.contents import printable_lines
from metatensor.cli.plan_inputs import arguments_of, changes_of, fail, made_model, numbers, what_if
from metatensor.cli.plan_operators import plan_operators
from metatensor.cli.plan_sweeps import Requested, Sizes, combinations
from metatensor.cli.plans import plans_text, write_page
from metatensor.cli.request import Request
from metatensor.cli.sizes import Size, parse_share
from metatensor.cli.terminal import output_on_stderr
from metatensor.cli.training_options import loss_of

__all__ = ["TRAINING", "plan_training", "train_options"]

LISTS = ("tensor", "pipeline", "shard", "micro_batches", "context_parallel", "expert_parallel", "virtual_stages")
WORDS = ("recompute", "precision", "schedules", "offload", "kernels")
"""Options whose values are lists of words."""
TRAINING = (*LISTS, "global_batch", "loss", "optimizer", "precision", "recompute", "headroom", "stages", "explain", "export",
            "schedules", "offload", "kernels", "keep", "top", "executor", "sweep", "over", "html", "operators", "mesh")  # fmt: skip
"""The options of `train_options` besides ``--train``."""
CHANGES = ("sequence", "global_batch", "devices", "price")
"""What ``--what-if`` can change besides named sizes of the inputs."""


def train_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--train`` and its options to a command."""
    for option in (
        click.option("--mesh", metavar="SIZES", help='With --operators: the shape of the mesh of devices, such as "2,4" [default: one '
                     "dimension]."),
        click.option("--operators", is_flag=True, default=None, help="With --train: choose where each operator of the model runs, instead "
                     "of layouts of whole layers. Needs SciPy, which contains the solver HiGHS."),
        click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="With --train: also write a page with "
                     "all layouts: memory against time, parallel coordinates, a table."),
        click.option("--over", metavar="NAME=VALUES", multiple=True, help='With --train: plan for each of several values, such as '
                     '"sequence=2048,8192" or "devices=8xH100 | 64xH100". Given several times: for all combinations.'),
        click.option("--sweep", metavar="FILE", type=click.Path(dir_okay=False, writable=True), help="With --train: keep the results in "
                     "FILE (SQLite), and do not compute again what it already has. `metatensor plans FILE` shows them."),
        click.option("--executor", metavar="NAME", help="With --train: where candidates are costed: process, process:COUNT, dask:ADDRESS, "
                     "ray:ADDRESS or mpi [default: here]."),
        click.option("--top", type=click.IntRange(min=1), metavar="N", help="With --train and --json: layouts to print [default: all]."),
        click.option("--export", metavar="FILE", help="With --train: print the best layout as torchtitan.toml, megatron.sh, "
                     "accelerate.yaml or deepspeed.json instead."),
        click.option("--explain", metavar="A,B", help="With --train: also say why one of two layouts, given by their ranks, is faster."),
        click.option("--stages", type=click.Choice(["balanced", "equal"]), help="With --train: how blocks are divided among pipeline "
                     "stages [default: balanced]."),
        click.option("--headroom", type=Size(parse_share), metavar="SHARE", help="With --train: part of the memory that is left free "
                     "[default: 0.1]."),
        click.option("--recompute", metavar="LIST", help='With --train: recomputation to try [default: "none,selective,full"].'),
        click.option("--micro-batches", metavar="LIST", help='With --train: samples of a micro-batch to try [default: powers of two].'),
        click.option("--keep", type=click.IntRange(min=1), metavar="N", help="With --train: number of fastest layouts to find "
                     "[default: 100]."),
        click.option("--offload", metavar="LIST", help='With --train: what the host may hold where a layout does not fit otherwise, of '
                     '"none,optimizer,activations,optimizer+activations" [default: none].'),
        click.option("--kernels", metavar="LIST", help='With --train: kernels that save less than the operators of the blocks, of '
                     '"activation,gather" [default: none].'),
        click.option("--virtual-stages", metavar="LIST", help='With --train: stages of a rank of the pipeline to try [default: "1,2,4"].'),
        click.option("--schedules", metavar="LIST", help='With --train: schedules of the pipeline to try [default: "GPipe,1F1B,'
                     'Interleaved1F1B,InterleavedZeroBubble,ZBVZeroBubble"].'),
        click.option("--expert-parallel", metavar="LIST", help="With --train: ranks that hold different experts [default: all that divide "
                     "the experts]."),
        click.option("--context-parallel", metavar="LIST", help="With --train: ranks that divide sequences [default: powers of two that "
                     "leave 2048 positions]."),
        click.option("--shard", metavar="LIST", help='With --train: what data-parallel ranks divide, 0 to 3 [default: "0,1,2,3"].'),
        click.option("--pipeline", metavar="LIST", help="With --train: numbers of pipeline stages to try [default: all that fit]."),
        click.option("--tensor", metavar="LIST", help="With --train: tensor-parallel ranks to try [default: all that "
                     "fit in a node]. With --serve: devices that serve a copy of the model together [default: 1]."),
        click.option("--precision", metavar="LIST", help="With --train: one or several of fp32, bf16, fp16, bf16-master and fp16-master "
                     "[default: bf16-master]."),
        click.option("--optimizer", metavar="NAME", help="With --train: an optimizer of metatensor.optim [default: adamw]."),
        click.option("--loss", metavar="FILE.py:NAME", help="With --train: function of the output, or of the output and the number of "
                     "samples, that returns the loss [default: the mean]."),
        click.option("--global-batch", type=click.IntRange(min=1), metavar="N", help="With --train: samples of a step on all devices."),
        click.option("--train", is_flag=True, help="Rank the layouts of a training step."),
    ):  # fmt: skip
        command = option(command)
    return command


def plan_training(request: Request, devices: str, where: tuple[str, ...], given: dict[str, Any], as_json: bool) -> None:
    """Search and print layouts."""
    if "global_batch" not in given:
        raise click.UsageError("--train needs --global-batch, the samples of a step on all devices")
    if not request.texts:
        raise click.UsageError('--train needs the inputs of the model: -i "int64[batch,sequence]"')
    if "mesh" in given and "operators" not in given:
        raise click.UsageError("--mesh needs --operators")
    if "operators" in given:
        if "loss" in given:
            given["loss"] = samples_known(Loss(given["loss"], request.torch))
        return plan_operators(request, without_cache(as_module(made_model(request))), devices, where, given, as_json)
    for name in LISTS:
        if name in given:
            given[name] = numbers(given[name], f"--{name.replace('_', '-')}", least=0 if name == "shard" else 1)
    for name in WORDS:
        if name in given:
            given[name] = [word.strip() for word in given[name].split(",")]
    if "loss" in given:
        given["loss"] = Loss(given["loss"], request.torch)
    over = combinations(request.texts, given.pop("over", ()), CHANGES)
    html = given.pop("html", None)
    ranks = _ranks(given.pop("explain", None))
    change = changes_of(given.pop("what_if", None), CHANGES, request.texts)
    target, top, context = given.pop("export", None), given.pop("top", None), given.pop("context", 2048)
    for name in ("context", "expert"):
        if f"{name}_parallel" in given:
            given[name] = given.pop(f"{name}_parallel")
    if len(over) > 1:
        for name, value in (("--explain", ranks), ("--what-if", change), ("--export", target)):
            if value:
                raise click.UsageError(f"{name} does not go with --over")
    arguments_of(request.texts, where, needed=("batch",))
    runs: dict[str, Any] = {name: given.pop(name) for name in ("executor", "sweep") if name in given}
    model = without_cache(as_module(made_model(request)))

    def case(settings: dict[str, Any]) -> Any:
        from metatensor.plan import Case

        labels = dict(settings)
        settings = {"devices": devices, **given, **settings}
        length = settings.pop("sequence", context)
        changed = {name: settings.pop(name) for name in set(labels) - set(CHANGES)}
        return Case(Requested(request, Sizes(request.texts, where, changed, length), model), settings, labels)

    plans = _searched(request, [case(one) for one in [*over, *([change] if change else [])]], runs)
    plan, other = plans[0], plans[-1] if change else None
    if html is not None:
        write_page(html, list(zip([*over, *([change] if change else [])], plans, strict=True)))
    if len(over) > 1:
        every = list(zip(over, plans, strict=True))
        rows = {"plans": [{"labels": labels, **one.to_dict(top)} for labels, one in every]} if as_json else {}
        click.echo(json.dumps(rows, indent=2) if as_json else printable_lines(plans_text(every)))
        raise SystemExit(0 if any(one.fits for one in plans) else 1)
    try:
        if target is not None:
            click.echo(printable_lines(plan.export(target)), nl=False)
            return
        explained = plan.explain(*ranks) if ranks and plan.layouts else None
    except ValueError as error:
        raise click.UsageError(printable(str(error).partition(": ")[2])) from None
    if as_json:
        found = plan.to_dict(top)
        click.echo(json.dumps(found if other is None else {**found, "what_if": {**change, **other.to_dict(top)}}, indent=2))
    else:
        texts = [str(plan), *([explained] if explained else [])]
        if other is not None:
            texts.append(f"{what_if(change)}\n\n{other}")
        click.echo(printable_lines("\n\n".join(texts)))
    raise SystemExit(0 if plan.fits else 1)


def _searched(request: Request, cases: list[Any], runs: dict[str, Any]) -> list[Any]:
    """Return the plans of cases, or print why there is none and exit."""
    from metatensor.plan import WorkerError, search, sweep
    from metatensor.plan.sweeping import Progress

    progress, file = Progress(), runs.get("sweep")
    try:
        with output_on_stderr():
            if runs:
                return sweep(cases, executor=runs.get("executor"), file=file, progress=progress)
            return [search(one.make()[0], *one.make()[1], **one.settings) for one in cases]
    except KeyboardInterrupt:
        if file is not None and progress.state:
            click.echo(f"\ninterrupted: {progress.state} are kept in {printable(file)}, and the same command continues from there",
                       err=True)  # fmt: skip
        raise
    except WorkerError as error:
        raise click.ClickException(printable(_plain(str(error)))) from None
    except (ImportError, ValueError) as error:
        raise click.UsageError(printable(_plain(str(error)))) from None
    except RuntimeError as error:
        if "nothing in the output requires grad" in str(error):
            raise click.ClickException("nothing in the output of the model requires grad; --loss FILE.py:NAME names a function of the "
                                       "output that returns the loss") from None
        fail(request, error)
    except (Exception, SystemExit) as error:
        fail(request, error)


def _plain(text: str) -> str:
    """Return a message without the name of the function that raised it."""
    for name in ("search: ", "sweep: ", "plan: "):
        text = text.removeprefix(name)
    return text


class Loss:
    """The function that ``--loss`` names. It can be pickled."""

    def __init__(self, target: str, torch: bool) -> None:
        self.given = target, torch
        self.__wrapped__ = loss_of(target, torch)

    def __reduce__(self) -> Any:
        return Loss, self.given

    @property
    def __code__(self) -> Any:
        return getattr(self.__wrapped__, "__code__", None)

    def __call__(self, *args: Any) -> Any:
        """Return the loss. Raise ValueError if it is not a number."""
        import metatensor as mt

        found = self.__wrapped__(*args)
        if not isinstance(found, mt.Tensor) or found.numel() != 1:
            got = f"a tensor of shape {list(found.shape)}" if isinstance(found, mt.Tensor) else f"a {type(found).__name__}"
            raise ValueError(f"the loss must be a tensor with one element, got {got} from {self.given[0]}; return its mean or sum")
        return found


def samples_known(loss: Any) -> Any:
    """Return a function of the output and the number of samples."""
    from metatensor.plan.searching import loss_of_samples

    return loss_of_samples(loss)


def _ranks(text: str | None) -> list[int] | None:
    if text is None:
        return None
    found = numbers(text, "--explain", least=0)
    if len(found) != 2:
        raise click.BadParameter("give the ranks of two layouts, such as 0,1", param_hint="--explain")
    return found
