"""Bytes that never change: documents, messages, rows, saved releases and a controller's state.

The files lie in ``tests/fixtures/golden``. ``make`` wrote them once; a test that fails here means that
what people have kept is read, verified or replayed differently, so the code is wrong, not the file.
"""
