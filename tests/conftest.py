"""What every test shares: generated examples repeat from run to run, unless ``EVENKEEL_SEED`` asks for new ones."""

import os

from hypothesis import settings

settings.register_profile("evenkeel", deadline=None, derandomize="EVENKEEL_SEED" not in os.environ)
settings.load_profile("evenkeel")
