"""Studies and benchmarks, one file each."""
