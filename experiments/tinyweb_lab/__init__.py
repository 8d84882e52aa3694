"""TinyWeb as a laboratory: what the demo and the studies are made of, each step a function with a file as its result."""
