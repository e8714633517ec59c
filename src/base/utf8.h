// Text that everybody can read, of bytes that anybody may have written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opentrn {

// The text with every byte that is not part of well-formed UTF-8 written as `\xNN`. Messages quote damaged
// files, and file names of Linux are bytes.
std::string printable(std::string_view bytes);
bool is_utf8(std::string_view bytes);
// Characters, a byte that is part of none counted as one: the length of Python's str of a file name.
size_t character_count(std::string_view bytes);

}  // namespace opentrn
