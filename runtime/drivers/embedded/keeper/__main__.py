"""Start of the keeper server: ``python -I -S .../keeper SOCKET-FD CGROUP-NAME OPEN-FILES``. Isolated, so it finds its own package first."""

import sys

sys.path.append(__file__.rsplit("/", 5)[0])

from runtime.drivers.embedded.keeper.server import main

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
