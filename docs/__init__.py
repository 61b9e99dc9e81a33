"""The pages that are made from code, and the modules that make them."""
