"""The pieces of the demo: its stages on a terminal, what it measures beside its targets, and its page."""
