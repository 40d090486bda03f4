"""Longer functions of the rules for gradients, one module for each family of operators. They are imported when first used."""
