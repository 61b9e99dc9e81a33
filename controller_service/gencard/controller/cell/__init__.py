"""The cell: where programs that insist on seeing records run, alone, bounded, heard in one way only."""
