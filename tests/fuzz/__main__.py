"""The command: a parent process that starts and watches a child, and shrinks programs that fail in it."""

import argparse
import faulthandler
import gc
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HANG = 90  # seconds of processor time without progress
STUCK = 1800  # seconds without progress, for a process that waits
CRASHES = 25  # the run stops after this number of failures or crashes


def arguments(argv=None):
    p = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    p.add_argument("--calls", type=int, default=100_000, help="minimum number of calls")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="meta", help="device of the tensors: meta or cpu")
    p.add_argument("--ops", help="only these ops, separated by commas")
    p.add_argument("--repeat", type=int, default=1, help="run each program this many times and look for leaks")
    p.add_argument("--only", type=int, help="run only the program with this number, and print it")
    p.add_argument("--start", type=int, default=0, help="the number of the first program")
    p.add_argument("--graphs", type=float, default=0.2, help="the share of programs that walk graphs of gradients")
    p.add_argument("--child", help=argparse.SUPPRESS)
    p.add_argument("--lines", help=argparse.SUPPRESS)
    return p.parse_args(argv)


# The child process ---------------------------------------------------------------------------------------------


def limit_memory():
    """Limit the address space, so that absurd sizes raise MemoryError. Sanitizers have their own limits."""
    if sys.platform == "linux" and "asan" not in os.environ.get("LD_PRELOAD", ""):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def drawn(options, number, ops):
    """Return the lines of the program of a number."""
    from .runner import program

    return program(options.seed, number, ops, options.device, graphs=options.graphs)


def child(options):
    """Run programs until the number of calls is reached. Write events to the file that the parent watches."""
    from .runner import Failure, Growth, Runner, leak

    limit_memory()
    faulthandler.enable()
    runner = Runner(options.device, set(options.ops.split(",")) if options.ops else None)
    if options.lines or options.only is not None:
        lines = json.loads(options.lines) if options.lines else drawn(options, options.only, runner.ops)
        try:
            runner.run(lines, trace=not options.lines)
            why = leak(runner, lines, options.repeat) if options.repeat > 1 else None
        except Failure as failure:
            why = failure.args[0]
        print(why or "nothing wrong")
        return 3 if why else 0
    with open(options.child, "r+b") as f:
        progress = mmap.mmap(f.fileno(), 16)
    runner.ops.records()
    gc.collect()
    gc.freeze()
    growth, number, failures, last = Growth(), options.start, 0, None

    def attempt(number):
        """Run a program. Return whether it failed."""
        struct.pack_into("qq", progress, 0, number, min(runner.calls, options.calls))
        lines = drawn(options, number, runner.ops)
        try:
            if options.repeat > 1:
                why = leak(runner, lines, options.repeat)
                if why:
                    raise Failure(why, "")
            else:
                runner.run(lines)
        except Failure as failure:
            print(json.dumps({"number": number, "why": failure.args[0], "lines": lines}), flush=True)
            failure.__traceback__ = failure.__cause__ = None
            return True
        return False

    while runner.calls < options.calls and failures < CRASHES:
        if last is None and runner.calls >= options.calls * (1 - Growth.SHARE):
            last = number
        failures += attempt(number)
        number += 1
    done = runner.calls
    if last is not None and options.repeat == 1 and not failures:
        for _ in range(Growth.ROUNDS):
            failures += sum([attempt(again) for again in range(last, number)])
            growth.note(runner.calls)
    text, grows = growth.report()
    figures = {"programs": number - options.start, "raised": runner.raised, "growth": text, "grows": grows}
    print(json.dumps({"done": done, **figures}), flush=True)
    return 0


# The parent process -------------------------------------------------------------------------------------------


def start(options, *more, **streams):
    """Start a child process."""
    command = [sys.executable, "-m", "fuzz", "--seed", str(options.seed), "--device", options.device, "--repeat", str(options.repeat),
               "--graphs", str(options.graphs)]
    if options.ops:
        command += ["--ops", options.ops]
    return subprocess.Popen([*command, *map(str, more)], cwd=Path(__file__).parents[1], text=True, **streams)


def processor_time(process):
    """Return the processor time of a running process in seconds, or the time of the day where the system does not tell."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return time.monotonic()


class Clock:
    """Tells whether a process makes no progress. On a busy machine only its own processor time counts."""

    def __init__(self, process):
        self.process, self.progress = process, None
        self.reset()

    def reset(self):
        self.time, self.own = time.monotonic(), processor_time(self.process)

    def hangs(self, progress=0):
        if progress != self.progress:
            self.progress = progress
            self.reset()
        return processor_time(self.process) - self.own > HANG or time.monotonic() - self.time > STUCK


def again(options, lines):
    """Run a program in a new process. Return the class of its failure, or None."""
    run = start(options, "--child", "-", "--lines", json.dumps(lines), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    clock = Clock(run)
    while True:
        try:
            out, err = run.communicate(timeout=5)
            break
        except subprocess.TimeoutExpired:
            if clock.hangs():
                run.kill()
                run.communicate()
                return "hangs"
    if run.returncode == 3:
        return "failure: " + out.strip().splitlines()[-1][:30]
    if run.returncode:
        return f"dies: {run.returncode}"
    return None


def tell(options, number, why, lines):
    from .shrink import shrink

    kind = again(options, lines)
    if kind is not None and kind != "hangs":
        lines = shrink(lines, lambda candidate: again(options, candidate) == kind)
    print(f"\n--- seed {options.seed} program {number} on {options.device}: {kind or 'not again in a process of its own'}\n{why}")
    print("    " + "\n    ".join(lines), flush=True)


def watch(options, first, calls):
    """Run one child. Return (number of the next program or None, calls made, failures as (number, reason, lines), summary)."""
    failures, summary = [], None
    temporary = tempfile.TemporaryFile
    with tempfile.NamedTemporaryFile() as shared, temporary("w+", errors="replace") as err, temporary("w+") as out:
        shared.write(b"\0" * 16)
        shared.flush()
        run = start(options, "--child", shared.name, "--calls", calls, "--start", first, stdout=out, stderr=err)
        clock = Clock(run)
        while run.poll() is None:
            time.sleep(0.5)
            with open(shared.name, "rb") as f:
                progress = struct.unpack("qq", f.read(16))
            if clock.hangs(progress):
                run.kill()
        with open(shared.name, "rb") as f:
            number, done = struct.unpack("qq", f.read(16))
        out.seek(0)
        for text in out:
            row = json.loads(text)
            if "done" in row:
                summary, done = row, row["done"]
            else:
                failures.append((row["number"], row["why"], row["lines"]))
        err.seek(0)
        said = err.read()
        if run.returncode or "runtime error:" in said:
            failures.append((number, f"exit {run.returncode}\n{said[-6000:]}", None))
            return number + 1 if run.returncode else None, done, failures, summary
        return None, done, failures, summary


def parent(options):
    began, done, number, crashes, bad = time.monotonic(), 0, options.start, 0, 0
    while number is not None and done < options.calls and crashes < CRASHES:
        number, made, failures, summary = watch(options, number, options.calls - done)
        done += made
        crashes += number is not None
        for at, why, lines in failures:
            if lines is None:
                lines = listing(options, at)
            tell(options, at, why, lines)
        bad += len(failures)
        if summary is not None:
            what = f"{summary['programs']} programs, {summary['raised']} calls raised; {summary['growth']}"
            print(f"seed {options.seed} on {options.device}: {what}")
            if summary["grows"]:
                bad += 1
                print("this is growth")
    print(f"{done} calls in {time.monotonic() - began:.0f} s, {bad} failures")
    return 1 if bad else 0


def listing(options, number):
    from .runner import Ops

    return drawn(options, number, Ops(set(options.ops.split(",")) if options.ops else None))


if __name__ == "__main__":
    chosen = arguments()
    sys.exit(child(chosen) if chosen.child or chosen.only is not None else parent(chosen))
