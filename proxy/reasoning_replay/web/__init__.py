"""Web: the I/O around the core: sockets, exchanges, and the composition root (`wiring`)."""
