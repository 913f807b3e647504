"""The command `penchant`, also as `python -m penchant`."""

import os
import sys


def main() -> None:
    """Load the command and call it; Ctrl-C is a line from the first moment on."""
    try:
        from penchant.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("\npenchant: interrupted\n")
        sys.exit(130)
    command()


if __name__ == "__main__":
    # Python puts the working folder first. Commands that only read never look for code there, and
    # neither does an import here (of pathlib).
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109
        del sys.path[0]
    main()
