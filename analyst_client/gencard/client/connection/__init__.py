"""The connection to a controller: TLS, credentials, calls, streams, typed errors.

In: an address and a certificate. Out: answers of the service, and operations that are waited for.
"""
