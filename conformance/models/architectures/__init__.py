"""The architectures: each module builds one from a local configuration with seeded weights, nothing downloaded."""
