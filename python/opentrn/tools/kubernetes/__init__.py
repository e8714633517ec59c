"""What Kubernetes asks of a node with Neuron devices: device plug-in, scheduler extender, resource slices."""
