"""Black boxes judged from outside: do they use more of a dataset than Phi."""
