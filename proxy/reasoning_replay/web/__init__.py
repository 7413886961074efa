"""Floor 2, the shell: sockets, exchanges, and the one place where everything is put together."""
