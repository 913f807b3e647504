"""Datasets: pairs with known information, shapes in the plane."""
