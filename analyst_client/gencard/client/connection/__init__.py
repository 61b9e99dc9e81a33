"""The connection to a controller: TLS, credentials, calls, streams, typed errors."""
