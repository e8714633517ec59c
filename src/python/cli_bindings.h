// The commands of C++.
#pragma once

#include <nanobind/nanobind.h>

namespace opentrn::python {

// AWS's programs whose words are not those of commands (cli/aws_words.h).
void bind_aws_words(nanobind::module_& module);
void bind_cli(nanobind::module_& module);

}  // namespace opentrn::python
