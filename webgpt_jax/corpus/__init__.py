"""Bundled webs: sources of facts rendered as folders of linked HTML pages with a search index, for use offline."""

from webgpt_jax.corpus.builder import SOURCES, build, find
from webgpt_jax.corpus.site import CorpusError

__all__ = ["SOURCES", "CorpusError", "build", "find"]
