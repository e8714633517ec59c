#include "model/cache_key.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "isa/custom_ops.h"

namespace opentrn::model {
namespace {

constexpr std::string_view kFormat = "opentrn-model-cache-2";

// A number as Python writes it: "1.0", "2.5e-07". Both take the shortest digits that read as the number.
std::string text_of_number(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

// JSON as Python's json.dumps(sort_keys=True) writes it, in which keys were made since the first version.
std::string text_of(const nlohmann::json& value) {
  std::string text;
  const auto separate = [&] { text += text.size() > 1 ? ", " : ""; };
  if (value.is_object()) {
    text = "{";
    for (const auto& [name, member] : value.items()) {
      separate();
      text += text_of(name) + ": " + text_of(member);
    }
    return text + "}";
  }
  if (value.is_array()) {
    text = "[";
    for (const auto& member : value) {
      separate();
      text += text_of(member);
    }
    return text + "]";
  }
  if (value.is_number_float()) return text_of_number(value.get<double>());
  return value.dump(-1, ' ', /*ensure_ascii=*/true);
}

nlohmann::json parsed(std::string_view options) {
  nlohmann::json value = nlohmann::json::parse(options, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded())
    throw Fault(FaultKind::kInput, "cache.options",
                fmt::format("the options are not text: {}", printable(options.substr(0, 200))),
                "write names and values in UTF-8");
  return value;
}

std::string_view bytes_of(const runtime::Attachment& part) {
  if (const MappedFile* file = mapped_file_of(reinterpret_cast<const std::byte*>(part.bytes.data())))
    file->expect_unchanged();
  return part.bytes;
}

// Python's Path.suffix: a dot at the end begins none.
std::string suffix_of(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  return suffix == "." ? "" : suffix;
}

class Key {
 public:
  void add(std::string_view name, std::string_view data) {
    digest_.add(fmt::format("{} {} ", name, character_count(data)));
    digest_.add(data);
    digest_.add("\n");
  }
  std::string hex() { return digest_.hex(); }

 private:
  Sha256 digest_;
};

}  // namespace

std::string cache_key(const KeyedModel& model) {
  Key key;
  key.add("format", kFormat);
  key.add("compiler", model.compiler);
  key.add("options", text_of(parsed(model.options)));
  if (const auto times = isa::custom_op_times(); !times.empty()) {  // a compiled program has them in it
    nlohmann::json rows = nlohmann::json::object();
    for (const auto& [name, time] : times) rows[name] = {time.ns, time.cycles_per_element};
    key.add("custom operators", text_of(rows));
  }
  if (model.text) {
    key.add("text", *model.text);
    return key.hex();
  }
  key.add("suffix", suffix_of(model.path));  // which says how the file is read
  if (model.parts.empty()) {
    // Locations of the program name the file.
    key.add("path", std::filesystem::absolute(model.path).lexically_normal().string());
    key.add("file", sha256_of_file(model.path, "import.file"));
    return key.hex();
  }
  for (const auto& part : model.parts)
    key.add("file", fmt::format("{} {} {}", part->name, part->begin, sha256_of(bytes_of(*part))));
  return key.hex();
}

std::string digest_of(std::span<const std::shared_ptr<runtime::Attachment>> files) {
  Sha256 digest;
  for (const auto& part : files) {
    digest.add(fmt::format("{} {} {}\n", part->name, part->begin, part->bytes.size()));
    digest.add(bytes_of(*part));
  }
  return digest.hex();
}

}  // namespace opentrn::model
