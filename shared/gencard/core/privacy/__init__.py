"""What a synthetic dataset gives away about the records behind it."""
