"""Kernels on the C++ machine: launching, recording, tracing for a model."""
