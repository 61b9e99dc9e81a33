"""Settings: TOML files, checked before anything starts, and drafted by ``init``."""
