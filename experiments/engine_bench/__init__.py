"""What `bench_engine` measures the engine beside."""
