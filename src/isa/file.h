// The file form of programs and executables: what save() writes, load() reads.
//
// A file is a 40-byte header and a payload. All numbers are little-endian; in the payload integers are
// variable-length (LEB128, signed ones zigzag) and reals are 8 bytes.
//
//   offset  bytes  what
//        0      4  "OTRN"
//        4      2  version, 3
//        6      1  kind: 1 program, 2 executable
//        7      1  compression: 0 none, 1 zstd
//        8      8  bytes of the payload when decompressed
//       16      8  bytes of the payload as stored: the rest of the file
//       24      8  XXH3 of the stored payload
//       32      8  XXH3 of bytes 0 to 31
//
// A malformed file is Fault{kInput} "file.*", with the offset at which it was found, never anything worse:
// every count is compared with the bytes that are left, and what is read satisfies file_check.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/executable.h"
#include "isa/program.h"

namespace opentrn::isa {

enum class Compression : uint8_t { kNone = 0, kZstd = 1 };
enum class FileKind : uint8_t { kProgram = 1, kExecutable = 2 };

void save(const Program& program, const std::string& path, Compression compression = Compression::kZstd);
void save(const Executable& executable, const std::string& path,
          Compression compression = Compression::kZstd);
Program load_program(const std::string& path);
Executable load_executable(const std::string& path);
FileKind file_kind(const std::string& path);

// The same in memory.
std::vector<std::byte> encode(const Program& program, Compression compression = Compression::kZstd);
std::vector<std::byte> encode(const Executable& executable, Compression compression = Compression::kZstd);
Program decode_program(std::span<const std::byte> file, std::string_view filename = "<memory>");
Executable decode_executable(std::span<const std::byte> file, std::string_view filename = "<memory>");

// Header and payload, for tools and for tests that write malformed payloads under a right header.
std::vector<std::byte> wrap(FileKind kind, std::span<const std::byte> payload, Compression compression);
std::vector<std::byte> unwrap(std::span<const std::byte> file, FileKind kind,
                              std::string_view filename = "<memory>");

}  // namespace opentrn::isa
