// Calls of tools between tags or tokens.
#pragma once

#include <string_view>

#include "serving/answer_reader.h"

namespace opentrn::serving {

// Calls as Qwen3-Coder and Seed-OSS write them, `<function=NAME><parameter=KEY>VALUE</parameter></function>`,
// as MiniMax M2 does, `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`, and, where
// names may stand by themselves, as GLM-4.5 and later do,
// `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`; and as DeepSeek's and Kimi's models do, a name
// and JSON between tokens of their own. Empty for a text that is none of them.
AnswerParts tagged_calls(std::string_view text, bool has_bare_names);

}  // namespace opentrn::serving
