"""torchrun as a process that ends with the one that has started it: elastic_agent.py WORDS OF TORCHRUN."""

from __future__ import annotations

import frameworks_support  # noqa: F401  ends this process with its parent
from torch.distributed.run import main

main()
