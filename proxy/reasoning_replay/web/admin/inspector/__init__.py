"""Inspector: a page on the admin port that shows exchanges as they happen."""
