"""Runtime: threads and sockets of this process."""
