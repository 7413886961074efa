"""History: what is kept of conversations and how it is found again; knows no dialect."""
