#include "base/sha256.h"

// Of the functions of one algorithm, which OpenSSL 3 has beside EVP: a program that is linked with
// libcrypto.a takes 20 kB for these, and all of the library for EVP.
#define OPENSSL_API_COMPAT 0x10100000L
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/utf8.h"

namespace opentrn {

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) { SHA256_Init(&state_->context); }
Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  constexpr size_t kPiece = size_t{16} << 20;  // between two looks at whether somebody wants to stop
  while (!bytes.empty()) {
    SHA256_Update(&state_->context, bytes.data(), std::min(bytes.size(), kPiece));
    bytes.remove_prefix(std::min(bytes.size(), kPiece));
    interrupt::poll();
  }
}

std::string Sha256::hex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256_Final(digest.data(), &state_->context);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

std::string sha256_of_file(const std::filesystem::path& path, const std::string& label) {
  const auto refuse = [&](const std::string& what) {
    throw Fault(FaultKind::kInput, label, fmt::format("'{}' {}", printable(path.string()), what),
                "the path of a file");
  };
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    refuse("is not a regular file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (!file) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  Sha256 digest;
  std::vector<char> piece(size_t{1} << 20);
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), file.get()))
    digest.add({piece.data(), count});
  if (std::ferror(file.get()) != 0) refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  return digest.hex();
}

}  // namespace opentrn
