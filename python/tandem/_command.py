"""The command `tandem`."""

import signal
import sys

from . import _core


def main():
    """Runs the command line; never returns."""
    # The compiled code does not return to Python before the end: Ctrl-C ends the process as it does for any command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_core.command(["tandem", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
