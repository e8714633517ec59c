// "Did you mean": the candidates nearest to a misspelt name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opentrn::arch {

// At most `count` candidates, nearest first, by edit distance over lower-cased text; a candidate
// that differs in more than half of its letters is no help and is left out.
std::vector<std::string> closest(std::string_view name, const std::vector<std::string>& candidates,
                                 size_t count = 3);

// "did you mean 'a', 'b'?", or `otherwise` when nothing is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise);

}  // namespace opentrn::arch
