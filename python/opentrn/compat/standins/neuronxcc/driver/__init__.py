"""Stand-in for `neuronxcc.driver`: CommandDriver.main, the command line in the caller's process."""
