"""What the environment and compiler flags say."""
