// NEURON_CC_FLAGS and jax.jit(compiler_options=...): neuronx-cc's options, and those of ours.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::compiler {

struct CompilerFlags {
  std::map<std::string, std::string> options;  // of compiler::options_from
  std::string target;                          // stated; empty where not
  // Options of neuronx-cc that change nothing here, as given: for the user to be told.
  std::vector<std::string> without_effect;
};

// Words as a shell splits them: "--auto-cast=all --auto-cast-type bf16 -O1". The last of several wins. Input
// fault for a word that is no option of neuronx-cc's, and for a value that is missing; not modelled for
// options whose effect would be seen in results and is not here.
CompilerFlags parse_compiler_flags(std::string_view text);
// What --cache_dir names there; "" where it names nothing. Input fault for an open quotation mark alone: it
// is asked for kernels too, whose flags are not checked.
std::string cache_dir_of(std::string_view text);
// The words, as a shell splits them. Input fault for an open quotation mark, which names `source`.
std::vector<std::string> flag_words(std::string_view text, std::string_view source);
// Whether a word stands there, as "--retry_failed_compilation".
bool has_flag(std::string_view text, std::string_view flag);
// The same from names and values, dashes left out, in front and inside ("auto_cast"): they win over `flags`.
// Options of XLA (xla_...) have no effect.
void add_compiler_options(CompilerFlags& flags, const std::map<std::string, std::string>& given);

}  // namespace opentrn::compiler
