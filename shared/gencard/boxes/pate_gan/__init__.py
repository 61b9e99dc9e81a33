"""A generative adversarial net whose discriminator learns from noisy votes."""
