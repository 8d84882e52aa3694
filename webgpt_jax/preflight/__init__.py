"""Whether a training run fits on a TPU slice or a GPU cluster, and how fast it can be, before there is one.

`topologies` says what can be had, `plans` reckons a run by hand, `plan_search` looks for one that fits, `compiler` has
the step compiled for it. Takes JAX with it.
"""
