"""The pipeline: one file a stage, each a frame -> frame story."""

import gc
import os
import sys

from jobs.launcher.command_line import decode, decode_arguments
from jobs.launcher.start import FOLDER_VARIABLE, take_over

take_over(os.environ)
# Modules and calls to Spark make many objects without cycles. With Python's number, 700, to look for cycles took a fifth of this
# process's time.
gc.set_threshold(100_000)
# Imported late, since an interrupt during this import has to end in one line, too.
from jobs.cli import console_main  # noqa: E402

# The launcher starts Spark, and so this process, in another folder. The variable is removed, so that child processes do not use it.
folder = os.environ.pop(FOLDER_VARIABLE, None)
if folder:
    os.chdir(decode(folder))
raise SystemExit(console_main(decode_arguments(sys.argv[1:])))
