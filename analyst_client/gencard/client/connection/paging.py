"""Lists that come page by page."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

import grpc

from gencard.client.connection.connection import Connection


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


class _Ask(Protocol):
    page_token: str


Ask = TypeVar("Ask", bound=_Ask)
Page = TypeVar("Page", bound=_Page)


def pages(
    connection: Connection, method: "grpc.UnaryUnaryMultiCallable[Ask, Page]", request: Ask
) -> Iterator[Page]:
    """Every page, in order."""
    while True:
        page = connection.call(method, request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
