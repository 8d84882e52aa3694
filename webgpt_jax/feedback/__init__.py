"""Where people come in: episodes as pages to read. No JAX, no TensorFlow."""

from webgpt_jax.feedback.contents import Figure, PageContents, QuestionSection, Shown
from webgpt_jax.feedback.viewer import render_page, write_page

__all__ = ["Figure", "PageContents", "QuestionSection", "Shown", "render_page", "write_page"]
