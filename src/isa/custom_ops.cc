#include "isa/custom_ops.h"

#include <mutex>
#include <set>

namespace opentrn::isa {

namespace {

struct Known {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
  std::map<std::string, CustomOpTime, std::less<>> times;
};

// Never destroyed: threads of a plugin may still run when static objects are.
Known& known() {
  static auto* instance = new Known;
  return *instance;
}

}  // namespace

void announce_custom_op(std::string_view name) {
  std::lock_guard lock(known().mutex);
  known().names.emplace(name);
}

bool has_custom_op(std::string_view name) {
  std::lock_guard lock(known().mutex);
  return known().names.contains(name);
}

void state_custom_op_time(std::string_view name, CustomOpTime time) {
  std::lock_guard lock(known().mutex);
  known().times.insert_or_assign(std::string(name), time);
}

CustomOpTime custom_op_time(std::string_view name) {
  std::lock_guard lock(known().mutex);
  const auto found = known().times.find(name);
  return found == known().times.end() ? CustomOpTime{} : found->second;
}

std::map<std::string, CustomOpTime, std::less<>> custom_op_times() {
  std::lock_guard lock(known().mutex);
  return known().times;
}

}  // namespace opentrn::isa
