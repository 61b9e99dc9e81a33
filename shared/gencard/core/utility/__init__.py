"""How much of the original a synthetic dataset keeps."""
