"""The port `usage`: CPU, memory, processes, file systems and folders, as the kernel counts them."""
