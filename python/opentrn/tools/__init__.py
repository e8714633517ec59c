"""The tools that scripts call, under AWS's names: where they are installed, and what of them is Python."""
