#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// record_kernel, run_kernel, describe_kernel: what opentrn/kernel/trace.py is made of.
void bind_kernels(nanobind::module_& module);
// source_finding, source_writes: what opentrn/strict/source_checks.py is made of.
void bind_source_checks(nanobind::module_& module);

}  // namespace opentrn::python
