"""What generators by nets share: records as rows of a net, and a fitted net without its library."""
