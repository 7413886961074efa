"""History: captured conversations, and how a request finds them; independent of any dialect."""
