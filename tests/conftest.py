"""Settings for every test: hypothesis repeats itself, keeps no files and times nothing."""

import signal
import sys
from pathlib import Path

from hypothesis import settings

settings.register_profile("fairtrial", deadline=None, derandomize=True, database=None)
settings.load_profile("fairtrial")

# Worker processes inherit the path: so they find the tests' own policies and problems.
sys.path.insert(0, str(Path(__file__).parent.parent))

# A shell ignores Ctrl-C for what it starts in the background, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
