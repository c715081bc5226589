"""Makes the made-up runs importable (the suite imports tests without packages)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
