// Header, checksum and compression of the file form.
#include <cstring>

#include <fmt/format.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/checksum.h"
#include "base/host_memory.h"
#include "base/new_file.h"
#include "isa/file.h"

namespace opentrn::isa {

namespace {

constexpr size_t kHeaderBytes = 40;
constexpr uint16_t kVersion = 3;  // 2 had checksums of another kind
constexpr char kMagic[4] = {'O', 'T', 'R', 'N'};
constexpr int kZstdLevel = 3;
// How much larger than what is stored a payload may be. Programs become 5 to 60 times smaller; without a
// limit a file of a megabyte can ask for a hundred gigabytes.
constexpr uint64_t kExpansionMax = 1000;
constexpr uint64_t kExpandsAlways = 16 << 20;  // bytes that any file may expand to

void put_le(std::byte* at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}
uint64_t get_le(const std::byte* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

[[noreturn]] void malformed(std::string_view filename, size_t offset, std::string message) {
  throw Fault(FaultKind::kInput, "file.header", fmt::format("{}: offset {}: {}", filename, offset, message),
              "write the file again, as with opentrn run --save-program");
}

FileKind check_header(std::span<const std::byte> file, std::string_view filename) {
  if (file.size() < kHeaderBytes)
    malformed(filename, file.size(),
              fmt::format("the file has {} bytes; its header has {}", file.size(), kHeaderBytes));
  if (std::memcmp(file.data(), kMagic, sizeof kMagic) != 0)
    malformed(filename, 0, "this is not an OpenTrn program");
  const uint64_t version = get_le(&file[4], 2);
  if (version != kVersion)
    malformed(filename, 4, fmt::format("version {}; this library reads version {}", version, kVersion));
  const auto kind = static_cast<int>(file[6]);
  if (kind != 1 && kind != 2) malformed(filename, 6, fmt::format("kind {}", kind));
  if (static_cast<int>(file[7]) > 1)
    malformed(filename, 7, fmt::format("compression {}", static_cast<int>(file[7])));
  if (get_le(&file[32], 8) != checksum(file.first(32)))
    malformed(filename, 32, "the header's checksum is wrong");
  return static_cast<FileKind>(kind);
}

std::vector<std::byte> compress(std::span<const std::byte> payload) {
  std::vector<std::byte> stored(ZSTD_compressBound(payload.size()));
  const size_t size = ZSTD_compress(stored.data(), stored.size(), payload.data(), payload.size(), kZstdLevel);
  OPENTRN_CHECK(!ZSTD_isError(size), "zstd: {}", ZSTD_getErrorName(size));
  stored.resize(size);
  return stored;
}

void check_expansion(uint64_t stored, uint64_t size, std::string_view filename) {
  if (size > kExpandsAlways && size / kExpansionMax > stored)
    malformed(filename, 8,
              fmt::format("{} bytes are said to expand to {}; a program grows at most {} times", stored, size,
                          kExpansionMax));
  expect_host_memory(static_cast<int64_t>(size), fmt::format("the program in {}", filename));
}

// Grows as it goes, so that a lie about the size costs no memory.
std::vector<std::byte> decompress(std::span<const std::byte> stored, uint64_t size,
                                  std::string_view filename) {
  check_expansion(stored.size(), size, filename);
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::vector<std::byte> payload, chunk(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  while (true) {
    ZSTD_outBuffer out{chunk.data(), chunk.size(), 0};
    const size_t left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left))
      malformed(filename, kHeaderBytes + in.pos, fmt::format("zstd: {}", ZSTD_getErrorName(left)));
    payload.insert(payload.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(out.pos));
    if (payload.size() > size) break;
    if (left == 0 || (in.pos == in.size && out.pos < out.size)) break;
  }
  if (payload.size() != size || in.pos != in.size)
    malformed(filename, 8, fmt::format("the payload does not decompress to the {} bytes promised", size));
  return payload;
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[noreturn]] void io_fault(const std::string& path, const char* what) {
  throw Fault(FaultKind::kInput, "file.io",
              fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

std::vector<std::byte> read_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) io_fault(path, "open");
  std::vector<std::byte> bytes;
  std::byte chunk[1 << 16];
  while (const size_t n = std::fread(chunk, 1, sizeof chunk, file.get()))
    bytes.insert(bytes.end(), chunk, chunk + n);
  if (std::ferror(file.get())) io_fault(path, "read");
  return bytes;
}

void write_file(std::span<const std::byte> bytes, const std::string& path) {
  NewFile file(path, "file.io", "give another path, or make room");
  file.put(bytes.data(), bytes.size());
  file.finish();
}

}  // namespace

std::vector<std::byte> wrap(FileKind kind, std::span<const std::byte> payload, Compression compression) {
  const std::vector<std::byte> compressed =
      compression == Compression::kZstd ? compress(payload) : std::vector<std::byte>();
  const std::span<const std::byte> stored =
      compression == Compression::kZstd ? std::span<const std::byte>(compressed) : payload;
  std::vector<std::byte> file(kHeaderBytes);
  std::memcpy(file.data(), kMagic, sizeof kMagic);
  put_le(&file[4], kVersion, 2);
  file[6] = static_cast<std::byte>(kind);
  file[7] = static_cast<std::byte>(compression);
  put_le(&file[8], payload.size(), 8);
  put_le(&file[16], stored.size(), 8);
  put_le(&file[24], checksum(stored), 8);
  put_le(&file[32], checksum(std::span(file).first(32)), 8);
  file.insert(file.end(), stored.begin(), stored.end());
  return file;
}

std::vector<std::byte> unwrap(std::span<const std::byte> file, FileKind kind, std::string_view filename) {
  const FileKind found = check_header(file, filename);
  if (found != kind)
    malformed(filename, 6,
              fmt::format("this file holds {}", found == FileKind::kProgram ? "a program" : "an executable"));
  const std::span<const std::byte> stored = file.subspan(kHeaderBytes);
  if (get_le(&file[16], 8) != stored.size())
    malformed(filename, 16,
              fmt::format("{} bytes follow the header; it promises {}", stored.size(), get_le(&file[16], 8)));
  if (get_le(&file[24], 8) != checksum(stored)) malformed(filename, 24, "the payload's checksum is wrong");
  const uint64_t size = get_le(&file[8], 8);
  if (static_cast<Compression>(file[7]) == Compression::kZstd) return decompress(stored, size, filename);
  if (size != stored.size())
    malformed(filename, 8, fmt::format("{} bytes are stored; the header promises {}", stored.size(), size));
  return {stored.begin(), stored.end()};
}

void save(const Program& program, const std::string& path, Compression compression) {
  write_file(encode(program, compression), path);
}
void save(const Executable& executable, const std::string& path, Compression compression) {
  write_file(encode(executable, compression), path);
}
Program load_program(const std::string& path) { return decode_program(read_file(path), path); }
Executable load_executable(const std::string& path) { return decode_executable(read_file(path), path); }
FileKind file_kind(const std::string& path) { return check_header(read_file(path), path); }

}  // namespace opentrn::isa
