"""Privacy risk: uniques and disclosure; distances, attacks and canaries in folders."""
