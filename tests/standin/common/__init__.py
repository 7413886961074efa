"""Parts that the stand-ins for the stateless APIs share: a judge, a ledger, a server, a script."""
