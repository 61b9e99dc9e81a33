"""Things to run and read first."""
