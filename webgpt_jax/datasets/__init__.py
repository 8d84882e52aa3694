"""Training data: demonstrations, comparisons and questions, read, checked and turned into examples.

The names here need the standard library alone. Batches for a training step are in `webgpt_jax.datasets.batches`
(NumPy), tasks and mixtures in `webgpt_jax.datasets.tasks` (seqio and TensorFlow, imported where used).
"""

from webgpt_jax.datasets.comparisons import (
    Comparison,
    ReleasedTokens,
    Side,
    comparison_from_json,
    comparison_to_json,
    label_of,
    read_comparisons,
    write_comparisons,
)
from webgpt_jax.datasets.demonstrations import (
    Demonstration,
    Example,
    demonstration,
    merge_scrolls,
    read_demonstrations,
)
from webgpt_jax.datasets.questions import Question, eli5_question, read_questions
from webgpt_jax.datasets.records import DataError, Report
from webgpt_jax.datasets.splits import Split, is_in_split, question_place

__all__ = [
    "Comparison",
    "DataError",
    "Demonstration",
    "Example",
    "Question",
    "ReleasedTokens",
    "Report",
    "Side",
    "Split",
    "comparison_from_json",
    "comparison_to_json",
    "demonstration",
    "eli5_question",
    "is_in_split",
    "label_of",
    "merge_scrolls",
    "question_place",
    "read_comparisons",
    "read_demonstrations",
    "read_questions",
    "write_comparisons",
]
