"""An open reproduction of WebGPT (Nakano et al., 2021) in JAX and Flax.

Nothing is imported here, so that `import webgpt_jax.env` takes neither JAX nor a network library with it.
"""

__version__ = "0.1.0"
