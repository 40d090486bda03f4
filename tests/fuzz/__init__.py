"""Random programs that call all of metatensor: valid calls, invalid ones, and objects that misbehave.

    cd tests && python -m fuzz --calls 1000000 --seed 1             # on meta; a call is one line of a program
    cd tests && python -m fuzz --calls 50000 --seed 1 --device cpu
    cd tests && python -m fuzz --seed 1 --only 4711                 # one program again, printed as it runs
    cd tests && python -m fuzz --calls 200000 --seed 1 --repeat 40  # run each program 40 times to find leaks

A program depends only on its number, the seed and the registry of ops. Whatever a program does, only ordinary Python
exceptions may result; `runner` defines what counts as a failure. `make sanitize` runs the fuzzer under AddressSanitizer
and UndefinedBehaviorSanitizer.

| file | contents |
| --- | --- |
| `world.py` | names that programs may use: tensors in many forms, objects that misbehave |
| `values.py` | random expressions for arguments, by schema type |
| `calls.py` | programs that call ops, from their schemas and from the recorded calls of `tests/oracle` |
| `graphs.py` | programs for gradients: graphs, views, writes, hooks, nodes, threads; `--graphs 1` runs these alone |
| `surface.py` | programs for everything else: indexing, storages, modules, modes, pickles, the definition of ops |
| `runner.py` | runs programs, checks their results, and detects leaks |
| `shrink.py` | reduces a failing program |
| `__main__.py` | the command |
"""
