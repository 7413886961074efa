"""Web: the shell around the core: sockets, exchanges, and the composition root (`wiring`)."""
