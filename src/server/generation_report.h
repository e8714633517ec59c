// What `opentrn generate` tells of its answers: facts as JSON, and lines for people.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace opentrn::server {

// `run`: {"answers", "programs" and "draft_programs" (each {"text", "sequences", "tokens", "context",
// "predicted_us", "collectives_us", "bound_by", "trust", "runs", "host_s", ...}), "speculation" ({"tokens",
// "guessed", "right", "decoded_us", "decoded_tokens", ...}), "host": {"ready_s", "seconds"}, ...}, what was
// measured and predicted. Names, order and what follows of it are added; the rest stays.
nlohmann::ordered_json generation_facts(const nlohmann::ordered_json& run);

// A line for the first token, for each program, and for this machine; of the same.
std::string generation_text(const nlohmann::ordered_json& run);

}  // namespace opentrn::server
