"""The records: their schema, encoding, versions, and the vault, the only room that reads them."""
