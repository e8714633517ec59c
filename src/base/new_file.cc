#include "base/new_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"

namespace opentrn {

namespace {

// Of the operating system's generator: a name that nobody guesses, and that says nothing about this process
// but its number, by which `opentrn cache clear` knows whether it still lives.
std::string temporary_beside(const std::string& path) {
  std::random_device device;
  const uint64_t number = (uint64_t{device()} << 32) | device();
  return fmt::format("{}.{}.{:016x}.part", path, ::getpid(), number);
}

// A device or a FIFO, whose name no file may take.
bool is_special(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISLNK(facts.st_mode) &&
         !S_ISDIR(facts.st_mode);
}

}  // namespace

NewFile::NewFile(std::string path, std::string label, std::string hint, unsigned permissions)
    : path_(std::move(path)),
      label_(std::move(label)),
      hint_(std::move(hint)),
      temporary_(is_special(path_) ? "" : temporary_beside(path_)) {
  const int descriptor =
      temporary_.empty() ? ::open(path_.c_str(), O_WRONLY | O_CLOEXEC)
                         : ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions);
  if (descriptor >= 0) file_ = ::fdopen(descriptor, "wb");
  if (file_) return;
  const int error = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  fail(error);
}

NewFile::~NewFile() {
  if (file_) std::fclose(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::fail(int error) {
  throw Fault(FaultKind::kInput, label_, fmt::format("{} cannot be written: {}", path_, std::strerror(error)),
              hint_);
}

void NewFile::put(const void* data, size_t bytes) {
  constexpr size_t kPart = size_t{1} << 24;  // a hundredth of a second of most disks
  for (size_t at = 0; at < bytes; at += kPart) {
    interrupt::poll();
    const size_t part = std::min(kPart, bytes - at);
    if (std::fwrite(static_cast<const char*>(data) + at, 1, part, file_) != part) fail(errno);
  }
  written_ += bytes;
}

void NewFile::pad_to(size_t offset) {
  static constexpr char kZeros[64] = {};
  while (written_ < offset) put(kZeros, std::min(sizeof kZeros, offset - written_));
}

void NewFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  temporary_.clear();
}

}  // namespace opentrn
