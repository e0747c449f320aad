"""asv: structured couplings beside dense ones."""

from threadpoolctl import threadpool_limits

from .compare_couplings import draws, products


class Products:
    """Inner products of rows and frequencies."""

    param_names = ["frequencies", "n_features", "n_frequencies", "dtype"]
    params = [
        ["dense", "structured-orthogonal", "structured-simplex"],
        [256, 4096],
        [4096],
        ["float32", "float64"],
    ]

    def setup(self, name, n_features, n_frequencies, dtype):
        """Draw the frequencies, with one BLAS thread."""
        threadpool_limits(1)
        self.apply = products(n_features, n_frequencies, dtype)[name]

    def time_apply(self, *_):
        """Time the products."""
        self.apply()

    def peakmem_apply(self, *_):
        """Measure the peak memory of the products, output included."""
        self.apply()


class Draws:
    """Orthogonal blocks, and the QR decompositions they need."""

    param_names = ["what"]
    params = [["geqrf and orgqr of LAPACK", "numpy.linalg.qr", "Orthogonal().draw"]]

    def setup(self, name):
        """Make the matrices, with one BLAS thread."""
        threadpool_limits(1)
        self.draw = draws()[name]

    def time_draw(self, name):
        """Time 100 blocks of 256 vectors."""
        self.draw()
