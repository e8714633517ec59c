"""Reports of a timed run for people: `html` writes one page that needs no network."""
