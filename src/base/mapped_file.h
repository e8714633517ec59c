// Regular files, mapped into memory and read-only: weights of gigabytes are never copied.
//
// The price is that the file stays the user's. One that is truncated while it is mapped ends a process by
// SIGBUS where its bytes are read, so whoever reads many of them asks expect_unchanged() first, and a run
// holds a GuardedFiles (guarded_files.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace opentrn {

class MappedFile {
 public:
  // Whose bytes they are: of a file of the user's, to which others may refer by path and offset, or of one
  // that OpenTrn wrote and may replace.
  enum class Owner : uint8_t { kUser, kOpenTrn };

  // Input fault `label` when the file cannot be opened, or is no regular file: a FIFO or a device is never
  // waited for, nor read without end.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path, std::string label = "file",
                                                std::string hint = {}, Owner owner = Owner::kUser);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }  // absolute
  Owner owner() const { return owner_; }
  // Input fault when the file is no longer as long as when it was mapped, or pages of it were lost.
  void expect_unchanged() const;
  // Pages of the mapping hold zeros now, for good.
  void mark_lost() const { lost_.store(true); }

 private:
  MappedFile(std::filesystem::path path, int descriptor, std::span<const std::byte> bytes, Owner owner)
      : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes), owner_(owner) {}

  std::filesystem::path path_;
  int descriptor_;
  std::span<const std::byte> bytes_;
  Owner owner_;
  mutable std::atomic<bool> lost_{false};
};

// The file that a byte in memory belongs to, valid as long as whoever holds the byte holds the file; null for
// bytes that are of no mapped file.
const MappedFile* mapped_file_of(const std::byte* byte);

// Where in a file of the user's a byte lies; nothing for other bytes.
struct FilePlace {
  std::filesystem::path path;  // absolute
  size_t offset = 0;
};
std::optional<FilePlace> file_place(const std::byte* byte);

}  // namespace opentrn
