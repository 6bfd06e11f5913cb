"""Times exported kernels and their Python peers in one process: problems, contenders and the method."""
