"""PyTorch, which comes with the extra ``deep`` and is loaded only where a net is trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from gencard.core.errors import InvalidInputError


def missing_extra() -> InvalidInputError:
    """The error where PyTorch or scikit-learn is not installed."""
    return InvalidInputError(
        field="black_box", problem="its networks need torch: pip install 'gencard[deep]'"
    )


def check_torch() -> None:
    """Raises InvalidInputError where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise missing_extra()


@contextmanager
def repeatable() -> Iterator[None]:
    """One thread and deterministic algorithms for the block, so that equal seeds give equal fits.

    Raises:
        InvalidInputError: PyTorch is not installed.
    """
    check_torch()
    torch = import_module("torch")
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict)
        torch.set_num_threads(threads)
