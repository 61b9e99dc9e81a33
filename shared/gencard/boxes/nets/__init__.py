"""CTGAN and PATE-GAN: generative adversarial networks for tables.

In: records and training options. Out: a fitted network, which samples without PyTorch. Only the modules
``generator`` and ``*_training`` import PyTorch, and only a fit loads them.
"""
