"""The working folder as a place of modules, for commands that run what the user names.

`import:factory=own:make` finds own.py in the folder where a command is typed. A folder may come
from anybody, so that commands which only read never look for code there, and it is never searched
for plugins.
"""

import sys
from pathlib import Path

from penchant.plugins import discovery
from penchant.plugins.discovery import Plugins


def load_here(without: tuple[str, ...] = ()) -> Plugins:
    """The plugins; modules of the working folder can be imported afterwards."""
    plugins = discovery.load(without)
    here = str(Path.cwd())
    # Last: a module in it replaces no other.
    if here not in sys.path:
        sys.path.append(here)
    return plugins
