"""Laws of the norm of a frequency, as functions of the dimension."""

from scipy import stats


def chi_law(n_features: int):
    """Norm of a standard normal vector, the law of the Gaussian kernel.

    Parameters
    ----------
    n_features : int
        Dimension d of the vector.

    Returns
    -------
    law : scipy.stats frozen distribution
        Has ``rvs(size, random_state)``, ``ppf(u)`` and ``cdf(r)``.

    Examples
    --------
    >>> from sklearn_crt.frequencies import chi_law
    >>> round(float(chi_law(2).ppf(0.5)), 4)
    1.1774
    """
    return stats.chi(n_features)
