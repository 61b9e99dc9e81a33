"""The density on given points whose means come nearest to given ones, as a linear program."""

import numpy as np
from scipy import optimize, sparse

from gencard.core.errors import NotConvergedError
from gencard.core.types import FloatArray


def nearest_density(values: FloatArray, means: FloatArray) -> tuple[FloatArray, float]:
    r"""The h from zero up, of sum 1, with the least :math:`\max_f |\sum_z h(z) f(z) - b_f|`.

    Boedihardjo, Strohmer, Vershynin (arXiv 2109.01748), Algorithm 1, step 2; by HiGHS's simplex method.

    Args:
        values: f(z), shape ``(functions, points)``.
        means: b, shape ``(functions,)``.

    Returns:
        h, shape ``(points,)``, and the least value.

    Raises:
        NotConvergedError: The solver finds no answer.
    """
    functions, points = values.shape
    matrix, slack = sparse.csr_array(values), sparse.csr_array(np.ones((functions, 1)))
    whole = sparse.csr_array(np.append(np.ones(points), 0.0)[None])
    found = optimize.milp(
        c=np.append(np.zeros(points), 1.0),
        constraints=[
            optimize.LinearConstraint(sparse.hstack([matrix, -slack]), ub=means),
            optimize.LinearConstraint(sparse.hstack([matrix, slack]), lb=means),
            optimize.LinearConstraint(whole, 1.0, 1.0),
        ],
    )
    if found.x is None:
        raise NotConvergedError(problem="the linear program has no solution")
    return np.maximum(found.x[:-1], 0.0), float(found.fun)
