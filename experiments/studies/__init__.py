"""What the studies share: flags, the folder they work in, the points they keep, and how their figures look."""
