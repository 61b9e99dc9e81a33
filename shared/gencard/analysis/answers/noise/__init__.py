"""Answers from noisy psi: intervals of first order that know the noise, and the bootstrap."""
