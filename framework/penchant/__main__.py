"""`python -m penchant` is the command `penchant`."""

from penchant.cli import main

if __name__ == "__main__":
    main()
