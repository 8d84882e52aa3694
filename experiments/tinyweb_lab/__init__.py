"""TinyWeb as a laboratory: what the demo and the studies are made of. Each step is a function whose result is kept."""
