"""Black boxes that the controller admits: declared, pinned by digest, reviewed."""
