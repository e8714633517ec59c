#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn {

namespace {

// Every file that is mapped. Never destroyed: whoever holds a file may outlive static objects.
struct OpenFiles {
  std::mutex mutex;
  std::map<const std::byte*, const MappedFile*> by_begin;
};
OpenFiles& open_files() {
  static auto* files = new OpenFiles;
  return *files;
}

// The descriptor of a regular file and its size, or why there is none.
struct Opened {
  int descriptor = -1;
  size_t size = 0;
  std::string why;
};

Opened opened(const std::filesystem::path& path) {
  struct stat facts {};
  // Asked before it is opened: to open a device may already do something.
  if (::stat(path.c_str(), &facts) != 0) return {-1, 0, std::strerror(errno)};
  if (!S_ISREG(facts.st_mode)) return {-1, 0, "it is not a regular file"};
  // Without waiting: what lies there may have become a FIFO since.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {-1, 0, std::strerror(errno)};
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(descriptor);
    return {-1, 0, "it is not a regular file"};
  }
  return {descriptor, static_cast<size_t>(facts.st_size), {}};
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, std::string label,
                                                   std::string hint, Owner owner) {
  const Opened file = opened(path);
  void* place = nullptr;
  std::string why = file.why;
  if (why.empty() && file.size > 0) {
    place = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
    if (place == MAP_FAILED) {
      why = fmt::format("it cannot be mapped: {}", std::strerror(errno));
      ::close(file.descriptor);
    }
  }
  if (!why.empty())
    throw Fault(FaultKind::kInput, std::move(label),
                fmt::format("{} cannot be opened: {}", path.string(), why), std::move(hint));
  std::shared_ptr<const MappedFile> mapped(new MappedFile(std::filesystem::absolute(path), file.descriptor,
                                                          {static_cast<const std::byte*>(place), file.size},
                                                          owner));
  if (file.size > 0) {
    OpenFiles& files = open_files();
    const std::lock_guard turn(files.mutex);
    files.by_begin[mapped->bytes().data()] = mapped.get();
  }
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    {
      OpenFiles& files = open_files();
      const std::lock_guard turn(files.mutex);
      files.by_begin.erase(bytes_.data());
    }
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  ::close(descriptor_);
}

void MappedFile::expect_unchanged() const {
  struct stat facts {};
  const bool known = ::fstat(descriptor_, &facts) == 0;
  const bool lost = lost_.load();
  if (known && !lost && static_cast<size_t>(facts.st_size) == bytes_.size()) return;
  throw Fault(FaultKind::kInput, "file.changed",
              fmt::format("{} had {} bytes when it was opened and {}: something wrote to it in place",
                          path_.string(), bytes_.size(),
                          lost ? "was truncated while it was read"
                               : fmt::format("has {} now", known ? facts.st_size : 0)),
              "write files under another name and rename them, and load the model again");
}

const MappedFile* mapped_file_of(const std::byte* byte) {
  OpenFiles& files = open_files();
  const std::lock_guard turn(files.mutex);
  auto found = files.by_begin.upper_bound(byte);
  if (found == files.by_begin.begin()) return nullptr;
  --found;
  const auto offset = static_cast<size_t>(byte - found->first);
  return offset < found->second->bytes().size() ? found->second : nullptr;
}

std::optional<FilePlace> file_place(const std::byte* byte) {
  const MappedFile* file = mapped_file_of(byte);
  if (!file || file->owner() != MappedFile::Owner::kUser) return std::nullopt;
  return FilePlace{file->path(), static_cast<size_t>(byte - file->bytes().data())};
}

}  // namespace opentrn
