"""V diag(weights) V^T as an operator that knows its factor: Gauss-Newton in the small."""

from penchant_numerics.linear_algebra import Factor, Operator


class LowRank(Operator):
    """V diag(weights) V^T for columns V (size, r); without weights V V^T, whose factor is V."""

    def __init__(self, V, weights=None):
        super().__init__(len(V), device=V.device, dtype=V.dtype)
        self.V, self.weights = V, weights

    def _rows(self, rows):
        inner = rows @ self.V
        return (inner if self.weights is None else inner * self.weights) @ self.V.T

    def exact_trace(self):
        weights = 1.0 if self.weights is None else self.weights
        return float((self.V**2 * weights).sum())

    def factor(self):
        if self.weights is not None:
            return None
        size, samples = self.V.shape
        like = {"device": self.device, "dtype": self.dtype}
        return Factor(size, samples, lambda u: u @ self.V.T, lambda v: v @ self.V, **like)
