"""A generated web with known facts: made-up animals, sites about them, questions, people who browse and judge.

Everything here is synthetic: the words are English, what they say is drawn from a seed.
"""
