// JSON as clients and chat templates see it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace opentrn::server::api {

using Json = nlohmann::ordered_json;

// The member of an object, or null where there is none.
const Json& field(const Json& object, std::string_view name);

// A value as a line of text, in the order of its members. Bytes that are no UTF-8 become U+FFFD.
std::string text_of(const Json& value);

// JSON with the spaces and escapes of Python's json.dumps, which models have read in training: `{"a": [1,
// 2]}`. Digits of numbers that are no 64-bit integers stay as they are. Nothing where the text is not JSON.
std::optional<std::string> spaced_json(std::string_view text);
std::string spaced(const Json& value);
// The same of a member of an object; nothing where there is none.
std::optional<std::string> spaced_member(std::string_view object, std::string_view name);

// Characters, not bytes.
int64_t characters(std::string_view text);

// A name that a client may ask for again: nobody guesses it, and no two are the same.
std::string new_id(std::string_view prefix);

}  // namespace opentrn::server::api
