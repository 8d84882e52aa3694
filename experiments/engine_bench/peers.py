"""Other engines at the same work: transformers in this process, llama.cpp and vLLM in their own.

Each is a function from prompts of one length and a number of new tokens to tokens a second of prefill and of decoding,
in float32, on the processors that this process has. How each is built is told in `bench_engine`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from webgpt_jax.models import TransformerConfig
from webgpt_jax.models.families import FAMILIES

Rates: TypeAlias = tuple[float, float]  # tokens a second of prefill and of decoding
Peer: TypeAlias = Callable[[list[list[int]], int], Rates]

VLLM_WORKER = Path(__file__).with_name("vllm_worker.py")


class PeerError(Exception):
    """Another engine could not be run."""


def transformers_peer(config: TransformerConfig) -> Peer:
    """transformers' own `generate`, for a random Llama of this shape: the time to the first token, then of the rest."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    import transformers  # type: ignore[import-not-found,unused-ignore]

    torch.manual_seed(0)
    shape = transformers.LlamaConfig(**FAMILIES["llama"].write(config))
    model = transformers.LlamaForCausalLM(shape).eval().to(torch.float32)
    model.generation_config.eos_token_id = None

    def rates(prompts: list[list[int]], new_tokens: int) -> Rates:
        tokens = torch.tensor(prompts)

        ends: list[float] = []

        def note(sequences: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
            ends.append(time.perf_counter())  # called after every token; nothing is to stop
            return torch.zeros(len(sequences), dtype=torch.bool)

        began = time.perf_counter()
        with torch.no_grad():
            model.generate(
                tokens,
                attention_mask=torch.ones_like(tokens),
                do_sample=False,
                max_new_tokens=new_tokens,
                stopping_criteria=transformers.StoppingCriteriaList([note]),
            )
        return _rates(prompts, new_tokens, ends[0] - began, ends[-1] - began)

    return rates


def llama_peer(program: Path, gguf: Path, cache: Literal["f32", "f16"]) -> Peer:
    """llama.cpp's `llama-batched-bench` on a float32 GGUF file. It draws its own prompts.

    With a cache in float32 its fused attention decodes slower than its plain one, which is taken; f16 is its default.
    """
    threads = str(len(os.sched_getaffinity(0)))

    def rates(prompts: list[list[int]], new_tokens: int) -> Rates:
        batch, length = len(prompts), len(prompts[0])
        settings = {
            "-m": str(gguf),
            "-c": str(batch * (length + new_tokens)),
            "-npl": str(batch),
            "-npp": str(length),
            "-ntg": str(new_tokens),
            "-t": threads,
            "-tb": threads,
            "-ctk": cache,
            "-ctv": cache,
            "-fa": "off" if cache == "f32" else "auto",
            "--output-format": "jsonl",
        }
        environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
        command = [str(program), *(word for pair in settings.items() for word in pair)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        except OSError as error:
            raise PeerError(f"{program} cannot be run: {error}") from error
        lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        if ran.returncode or not lines:
            raise PeerError(f"{program} measured nothing (exit status {ran.returncode}): {_end(ran.stderr)}")
        measured = json.loads(lines[-1])
        return measured["speed_pp"], measured["speed_tg"]

    return rates


@contextlib.contextmanager
def vllm_peer(python: Path, config: TransformerConfig, slots: int, length: int) -> Iterator[Peer]:
    """vLLM's CPU build, which another interpreter has: started once, with random weights for a Llama of this shape,
    then asked over its standard input; idle between. Its time of one token, then of all."""
    processors = sorted(os.sched_getaffinity(0))
    openmp = python.parent.parent / "lib/libiomp5.so"  # Intel's, which comes with the build and which it asks for
    environment = {
        "LD_PRELOAD": str(openmp) if openmp.exists() else "",
        "OMP_NUM_THREADS": str(len(processors)),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, processors)),
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "HF_HUB_OFFLINE": "1",
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fields = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **FAMILIES["llama"].write(config)}
        (folder / "config.json").write_text(json.dumps(fields))
        log = stack.enter_context(tempfile.TemporaryFile("w+"))
        try:
            worker = subprocess.Popen(
                [python, VLLM_WORKER, folder, str(slots), str(length)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | environment,
            )
        except OSError as error:
            raise PeerError(f"{python} cannot be run: {error}") from error
        stack.enter_context(worker)
        requests, answers = worker.stdin, worker.stdout
        assert requests is not None
        assert answers is not None

        def answer() -> Any:
            line = answers.readline()
            if not line:
                log.seek(0)
                raise PeerError(f"vLLM under {python} ended with exit status {worker.wait()}: {_end(log.read())}")
            return json.loads(line)

        def rates(prompts: list[list[int]], new_tokens: int) -> Rates:
            print(json.dumps([prompts, new_tokens]), file=requests, flush=True)
            first, whole = answer()
            return _rates(prompts, new_tokens, first, whole)

        answer()  # it has started
        yield rates


def _rates(prompts: list[list[int]], new_tokens: int, first: float, whole: float) -> Rates:
    """From the seconds that one token of each prompt took, and that all took."""
    return sum(map(len, prompts)) / first, len(prompts) * (new_tokens - 1) / (whole - first)


def _end(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-3:])
