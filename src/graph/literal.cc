#include "graph/literal.h"

#include <cstring>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/host_memory.h"

namespace opentrn::graph {

namespace {

constexpr int64_t kAskFrom = int64_t{64} << 20;  // bytes; less is had without asking

}  // namespace

Literal::Literal(Type type, std::vector<std::byte> bytes) : type_(std::move(type)) {
  auto owned = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  bytes_ = *owned;
  owner_ = std::move(owned);
  check_size();
}

Literal::Literal(Type type, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
    : type_(std::move(type)), owner_(std::move(owner)), bytes_(bytes) {
  check_size();
}

void Literal::check_size() const {
  const auto size = static_cast<int64_t>(bytes_.size());
  const int64_t wanted = type_.byte_count();
  if (size == wanted || (wanted > 0 && size == storage_bytes(type_.element()))) return;
  throw Fault(FaultKind::kInput, "graph.literal",
              fmt::format("{} bytes of data for {}, which takes {}", size, type_.to_string(), wanted));
}

bool Literal::is_splat() const {
  return static_cast<int>(bytes_.size()) == storage_bytes(type_.element()) && type_.element_count() != 0;
}

std::vector<std::byte> Literal::dense() const {
  if (!is_splat()) return {bytes_.begin(), bytes_.end()};
  if (type_.byte_count() > kAskFrom) expect_host_memory(type_.byte_count(), "a constant, written out,");
  std::vector<std::byte> all(static_cast<size_t>(type_.byte_count()));
  for (size_t at = 0; at < all.size(); at += bytes_.size())
    std::memcpy(all.data() + at, bytes_.data(), bytes_.size());
  return all;
}

bool Literal::operator==(const Literal& other) const {
  if (!(type_ == other.type_)) return false;
  if (bytes_.size() == other.bytes_.size())
    return bytes_.empty() || std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
  return dense() == other.dense();
}

}  // namespace opentrn::graph
