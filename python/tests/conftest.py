"""Kernels of the tests import `nki` as users' kernels do."""

import signal
import tandem.nki

# A shell starts its background jobs with SIGINT ignored, and Python then leaves it so; the tests that interrupt need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

tandem.nki.install()
