"""The parts of `bench_web`."""
