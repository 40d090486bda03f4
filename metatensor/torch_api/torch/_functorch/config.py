"""Settings of PyTorch's partitioner of compiled programs. They are stored and have no effect. Any other can be set as well."""

from __future__ import annotations

activation_memory_budget = 1.0
activation_memory_budget_runtime_estimator = "flops"
activation_memory_budget_solver = "dp"
visualize_memory_budget_pareto = False
enable_activation_offloading = False
