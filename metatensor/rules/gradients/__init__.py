"""Longer functions of gradient rules, with one module for each family of operators. Modules are imported on first use."""
