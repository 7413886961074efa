"""What passes, for people who look at the operators' port: recorded, told, and shown on a page."""
