"""Every figure the project states, printed by one command: ``make bench``."""

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is loaded: times are those of one thread, as in `make bench`
