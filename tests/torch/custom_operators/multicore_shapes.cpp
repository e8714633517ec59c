// Shape functions of multicore.cpp.
#include <stdint.h>
#include <stdlib.h>
#include <torch/torch.h>

#include "torchneuron/register.h"
torch::Tensor as_first(torch::Tensor t) { return torch::zeros(t.sizes(), torch::kFloat); }
NEURON_LIBRARY(opentrn_multicore, m) {
  m.def("ids", &as_first, "ids");
  m.def("returns", &as_first, "returns");
  m.def("reads", &as_first, "reads");
}
