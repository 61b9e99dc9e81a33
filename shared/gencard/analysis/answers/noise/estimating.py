r"""Estimating equations: what the coefficients of a model solve, as linear functions of counts.

Every model here solves :math:`U(\theta; n) = \sum_c n_c\, g_c(\theta) = 0` over cells c of a few tables.
The derivative of U by each count says what noise on it does; that of the information
:math:`A = -\partial U / \partial \theta`, whether the noise is small enough for this to be said.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product

import numpy as np

from gencard.analysis.answers.design import Block, Design, lifted, union_of
from gencard.core.domain import Clique, Domain
from gencard.core.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """Changes of quadratic forms of the information, one for each of some directions.

    Args:
        by_counts: Derivatives by the counts, at fixed coefficients.
        by_params: Derivatives by the coefficients, shape ``(directions, coefficients)``.
    """

    by_counts: tuple[Block, ...]
    by_params: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Equations:
    """A model's estimating equations at their solution.

    Args:
        information: Shape ``(coefficients, coefficients)``.
        gradients: Derivatives of each equation by the counts of some tables.
        curvature: Curvature of the information along directions, shape ``(directions, coefficients)``.
        sampling: Covariance of the coefficients without the noise, where it is not that of the answer.
        notes: Notes for the reader of the answer.
    """

    information: FloatArray
    gradients: tuple[Block, ...]
    curvature: Callable[[FloatArray], Curvature]
    sampling: FloatArray | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ModelCells:
    """The cells of all features of a model together.

    Args:
        attributes: The features.
        matrix: The model matrix, shape ``(cells, columns)``.
        counts: Records in each; negative where noise made them so.
    """

    attributes: Clique
    matrix: FloatArray
    counts: FloatArray

    def block(self, values: FloatArray) -> Block:
        """Functions of the counts from values of shape ``(cells, functions)``."""
        return Block(self.attributes, np.arange(values.shape[1]), values.T)


def kept_blocks(design: Design, kept: IntArray) -> tuple[Block, ...]:
    """The columns that are estimated, at their positions among the estimates."""
    position = {int(place): index for index, place in enumerate(kept)}
    blocks = []
    for block in design.blocks:
        inside = np.array([int(place) in position for place in block.places], dtype=bool)
        places = np.array([position[int(place)] for place in block.places[inside]], dtype=np.int64)
        blocks.append(Block(block.attributes, places, block.values[inside]))
    return tuple(block for block in blocks if len(block.places))


def on_both(one: Block, other: Block, domain: Domain) -> tuple[Clique, FloatArray, FloatArray]:
    """The attributes of two blocks together, and the values of both in their cells."""
    union = union_of(one, other)
    sizes = tuple(domain.size(name) for name in union)
    return union, lifted(one, union, sizes), lifted(other, union, sizes)


def residuals(blocks: tuple[Block, ...], response: tuple[Block, ...], params: FloatArray) -> list[Block]:
    """The response less what is fitted, as single numbers in the cells of each block."""
    fitted = [
        replace(block, places=block.places[:1], values=-(params[block.places] @ block.values)[None])
        for block in blocks
    ]
    return [*response, *fitted]


def linear_equations(
    blocks: tuple[Block, ...],
    response: tuple[Block, ...],
    params: FloatArray,
    inverse: FloatArray,
    domain: Domain,
) -> Equations:
    r"""Least squares: :math:`X'(y - X b) = 0`, from pairs of terms.

    Args:
        response: Number of the response in each cell, in parts.
        inverse: :math:`(X'X)^{-1}`.
    """
    rest = residuals(blocks, response, params)
    gradients = [product_of(block, part, domain) for block in blocks for part in rest]
    return Equations(
        np.asarray(np.linalg.inv(inverse), dtype=np.float64),
        tuple(gradients),
        lambda along: _linear_curvature(blocks, along, domain),
    )


def product_of(block: Block, number: Block, domain: Domain) -> Block:
    """The derivatives, by the counts or sums of a table, of sums of columns times a number."""
    union, left, right = on_both(block, number, domain)
    return Block(union, block.places, left * right, _numbers(block, number, domain))


def _numbers(one: Block, other: Block, domain: Domain) -> Clique:
    return tuple(sorted(one.of + other.of, key=domain.axis))


def _linear_curvature(blocks: tuple[Block, ...], along: FloatArray, domain: Domain) -> Curvature:
    parts = []
    for one, other in combinations_with_replacement(range(len(blocks)), 2):
        union, left, right = on_both(blocks[one], blocks[other], domain)
        forms = (along[:, blocks[one].places] @ left) * (along[:, blocks[other].places] @ right)
        values = forms if one == other else 2 * forms
        numbers = _numbers(blocks[one], blocks[other], domain)
        parts.append(Block(union, np.arange(len(along)), values, numbers))
    return Curvature(tuple(parts), np.zeros_like(along))


def choice_equations(
    blocks: tuple[Block, ...], responses: Block, cells: ModelCells, params: FloatArray, domain: Domain
) -> Equations:
    r"""Logistic and multinomial regression: :math:`\sum n(y, x)\, x_j - \sum_x n(x)\, p_y(x)\, x_j = 0`.

    Args:
        responses: 1 at the levels of the response that each equation is of, 0 at the others.
        params: Shape ``(equations, columns)``; coefficients are numbered equation by equation.
    """
    columns = params.shape[1]
    utility = np.exp(np.clip(cells.matrix @ params.T, -500, 500))
    shares = utility / (1 + utility.sum(axis=1, keepdims=True))
    weights = np.einsum("mk,kl->mkl", shares, np.eye(len(params))) - shares[:, :, None] * shares[:, None]
    gradients = [cells.block(-_spread(shares, cells.matrix))]
    for equation, own in enumerate(responses.values):
        one = Block(responses.attributes, responses.places[:1], own[None])
        for block in blocks:
            part = product_of(block, one, domain)
            gradients.append(replace(part, places=part.places + equation * columns))
    size = params.size
    information = np.einsum("m,mkl,mi,mj->kilj", cells.counts, weights, cells.matrix, cells.matrix)
    return Equations(
        information.reshape(size, size),
        tuple(gradients),
        lambda along: _choice_curvature(cells, shares, along),
    )


def _spread(shares: FloatArray, matrix: FloatArray) -> FloatArray:
    """Shape ``(cells, equations * columns)``."""
    return np.asarray((shares[:, :, None] * matrix[:, None]).reshape(len(matrix), -1))


def _choice_curvature(cells: ModelCells, shares: FloatArray, along: FloatArray) -> Curvature:
    """The form along a direction is the variance of its utilities, over the levels of the response."""
    directions = along.reshape(len(along), shares.shape[1], -1)
    forms, by_params = np.empty((len(along), len(shares))), np.empty_like(along)
    for place, direction in enumerate(directions):
        utilities = cells.matrix @ direction.T
        mean = (shares * utilities).sum(axis=1)
        centred = utilities - mean[:, None]
        forms[place] = (shares * centred**2).sum(axis=1) + (1 - shares.sum(axis=1)) * mean**2
        slopes = shares * (centred**2 - forms[place][:, None]) * cells.counts[:, None]
        by_params[place] = (slopes.T @ cells.matrix).reshape(-1)
    return Curvature((cells.block(forms.T),), by_params)


def count_equations(
    blocks: tuple[Block, ...],
    response: tuple[Block, ...] | None,
    cells: ModelCells,
    params: FloatArray,
    domain: Domain,
) -> Equations:
    r"""Poisson regression, and the log-linear model, in which each cell has one count.

    .. math:: \sum n(y, x)\, y\, x_j - \sum_x n(x)\, e^{x \beta} x_j = 0, \quad
       \sum_x n(x)\, x_j - \sum_x e^{x \beta} x_j = 0

    Args:
        response: Number of the response in each cell, in parts; None for the log-linear model.
    """
    rates = np.exp(np.clip(cells.matrix @ params, -500, 500))
    means = rates if response is None else rates * cells.counts
    if response is None:
        gradients = blocks
    else:
        fitted_block = cells.block(-rates[:, None] * cells.matrix)
        pairs = product(blocks, response)
        gradients = (fitted_block, *(product_of(block, part, domain) for block, part in pairs))

    def curvature(along: FloatArray) -> Curvature:
        forms = (cells.matrix @ along.T) ** 2
        by_params = (forms * means[:, None]).T @ cells.matrix
        direct = () if response is None else (cells.block(rates[:, None] * forms),)
        return Curvature(direct, by_params)

    return Equations((cells.matrix * means[:, None]).T @ cells.matrix, gradients, curvature)
