# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixtures of ``live``."""

from live import crash, deb12, deb13, lab, safe12

__all__ = ["crash", "deb12", "deb13", "lab", "safe12"]
