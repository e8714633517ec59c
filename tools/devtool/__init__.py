"""The implementation of ./dev.

Standard library only, Python 3.10 or newer: it runs before anything is installed.
"""
