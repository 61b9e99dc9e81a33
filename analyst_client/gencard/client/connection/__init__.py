"""The connection to a controller: TLS, credentials, calls, streams, typed errors.

In: an address and a connection folder. Out: answers of the service, results of its operations, typed
errors. The client's other rooms import its modules; of them it imports only ``common``.

``connection`` makes calls, finds the leading controller and explains failures of TLS, ``credentials``
reads and fills the connection folder and follows the controller's signing keys, ``tables`` transfers
datasets. In all of them "our" means the client's.
"""
