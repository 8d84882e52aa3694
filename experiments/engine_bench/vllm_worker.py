"""vLLM at the work of `bench_engine`, under the interpreter that has it; nothing of ours is imported.

    python vllm_worker.py <folder with config.json> <sequences at a time> <tokens of the longest>

Writes a line when it has started. Then reads lines [prompts, new tokens] and answers each with a line [seconds of one
token each, seconds of all].
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(folder: str, sequences: int, length: int) -> None:
    """Serves until its input ends. What vLLM prints goes to standard error, so that only answers leave."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found,unused-ignore]

    model = LLM(
        folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=length,
        max_num_seqs=sequences,
        enable_prefix_caching=False,  # the same prompts come twice
    )

    def seconds(prompts: list[list[int]], tokens: int) -> float:
        settings = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        began = time.perf_counter()
        model.generate([{"prompt_token_ids": prompt} for prompt in prompts], settings, use_tqdm=False)
        return time.perf_counter() - began

    print(json.dumps("started"), file=answers, flush=True)
    for line in sys.stdin:
        prompts, new_tokens = json.loads(line)
        print(json.dumps([seconds(prompts, 1), seconds(prompts, new_tokens)]), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
