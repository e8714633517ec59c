// The text of replay_page.html, put into the library by embed_page.cmake at build time.
#pragma once

#include <string_view>

namespace opentrn::cli {

std::string_view embedded_replay_page();

}  // namespace opentrn::cli
