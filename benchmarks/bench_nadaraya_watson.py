"""asv: Nadaraya-Watson on each map, exact, and KernelDensity per class."""

from threadpoolctl import threadpool_limits

from .cases import CASES, N_QUERIES, gamma_of, make_classifiers, make_rows


class NadarayaWatson:
    """Fitting and predicting, memory and accuracy of each classifier."""

    param_names = ["classifier", "case"]
    params = [
        ["RBFSampler", "Nystroem", "TrigRBFSampler", "PositiveRBFSampler"]
        + ["OPRFSampler", "exact", "KernelDensity"],
        [case for case in CASES["asv"] if case.n_components == 1024],
    ]

    def setup(self, name, case):
        """Fit the classifier, with one BLAS thread."""
        threadpool_limits(1)
        self.X, self.y = make_rows(case)
        self.queries, self.answers = make_rows(case, N_QUERIES)
        classifiers = make_classifiers(case, gamma_of(self.X))
        if name not in classifiers:
            raise NotImplementedError  # asv: skipped
        self.classifier = classifiers[name].fit(self.X, self.y)

    def time_fit(self, name, case):
        """Time fit."""
        self.classifier.fit(self.X, self.y)

    def time_predict(self, name, case):
        """Time predict."""
        self.classifier.predict(self.queries)

    def peakmem_predict(self, name, case):
        """Measure the peak memory of predict."""
        self.classifier.predict(self.queries)

    def track_accuracy(self, name, case):
        """Return the share of right answers."""
        return float(self.classifier.score(self.queries, self.answers))

    track_accuracy.unit = "share"
