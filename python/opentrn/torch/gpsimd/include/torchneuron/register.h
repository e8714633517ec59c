// NEURON_LIBRARY(name, m) { m.def("op", &shape_function, "kernel"); }: the operators of a library.
#ifndef OPENTRN_TORCH_GPSIMD_REGISTER_H_
#define OPENTRN_TORCH_GPSIMD_REGISTER_H_

#include "opentrn/operators.h"

#define NEURON_LIBRARY(library_name, m)                                             \
  static void opentrn_define_##library_name(torch::neuron::Library&);               \
  static const bool opentrn_has_defined_##library_name =                            \
      torch::neuron::define_library(#library_name, &opentrn_define_##library_name); \
  static void opentrn_define_##library_name(torch::neuron::Library& m)  // NOLINT: the author's name for it

#endif  // OPENTRN_TORCH_GPSIMD_REGISTER_H_
