"""Benchmarks: tables of calls by family (``bench_*.py``), and a program that times all of them (``run.py``)."""
