// The texts of the pages beside this file, put into the library by embed_page.cmake at build time.
#pragma once

#include <string_view>

namespace opentrn::cli {

std::string_view embedded_replay_page();
std::string_view embedded_claims_page();
std::string_view embedded_plan_page();
std::string_view embedded_jax_page();  // the program of `opentrn plan --export jax`
// python/opentrn/report/fabric.html, with its style and script.
std::string_view embedded_fabric_page();

}  // namespace opentrn::cli
