"""Kernels of the tests import `nki` as users' kernels do."""

import tandem.nki

tandem.nki.install()
