// SHA-256, by OpenSSL: keys of what is kept by content, which nobody can make collide.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace opentrn {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  // Of all that was added, in hexadecimal; nothing can be added behind it.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(std::string_view bytes);
// Of a regular file's bytes; input fault `label` when it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path, const std::string& label);

}  // namespace opentrn
