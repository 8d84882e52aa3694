"""The text browser of WebGPT: commands, pages, state, observation, episodes. No JAX, no TensorFlow, no sockets."""

from webgpt_jax.env.browser import Browser, search_page
from webgpt_jax.env.commands import Command, InvalidAction, parse_command
from webgpt_jax.env.episode import (
    Episode,
    Step,
    episode_from_json,
    episode_to_json,
    read_episodes,
    run_episode,
)
from webgpt_jax.env.observation import (
    ParsedObservation,
    is_observation,
    parse_answer_prompt,
    parse_observation,
    render_answer_prompt,
    render_observation,
    write_observation,
)
from webgpt_jax.env.page import Link, Page, PageWriter, Quote, error_page
from webgpt_jax.env.protocol import Action, EpisodeError, Policy, SearchResult, Web, WebError
from webgpt_jax.env.state import BrowserConfig, BrowserState, EpisodeEnd
from webgpt_jax.env.text import clean, clean_line

__all__ = [
    "Action",
    "Browser",
    "BrowserConfig",
    "BrowserState",
    "Command",
    "Episode",
    "EpisodeEnd",
    "EpisodeError",
    "InvalidAction",
    "Link",
    "Page",
    "PageWriter",
    "ParsedObservation",
    "Policy",
    "Quote",
    "SearchResult",
    "Step",
    "Web",
    "WebError",
    "clean",
    "clean_line",
    "episode_from_json",
    "episode_to_json",
    "error_page",
    "is_observation",
    "parse_answer_prompt",
    "parse_command",
    "parse_observation",
    "read_episodes",
    "render_answer_prompt",
    "render_observation",
    "run_episode",
    "search_page",
    "write_observation",
]
