"""What came of it: preferences, slopes and their error bars, operations a question, and the frontier of both.

`stats` and `frontier` need NumPy alone; `flops` takes the models, and JAX, with it.
"""
