"""A conditional generative adversarial net for tables."""
