#include "base/build_id.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include <elf.h>
#include <link.h>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn {

namespace {

constexpr std::string_view kOwner("GNU\0", 4);

struct Search {
  uintptr_t inside;  // an address of the object
  std::string found;
};

size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

// Notes are {name size, description size, type}, the name and the description, each padded to four bytes.
std::string id_in_notes(const std::byte* notes, size_t size) {
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const std::byte* name = notes + at + sizeof note;
    const size_t next = at + sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (next > size) break;
    if (note.n_type == NT_GNU_BUILD_ID &&
        std::string_view(reinterpret_cast<const char*>(name), note.n_namesz) == kOwner) {
      std::string id;
      for (size_t i = 0; i < note.n_descsz; ++i)
        id += fmt::format("{:02x}", static_cast<uint8_t>(name[padded(note.n_namesz) + i]));
      return id;
    }
    at = next;
  }
  return {};
}

int visit(dl_phdr_info* object, size_t, void* user) {
  auto& search = *static_cast<Search*>(user);
  bool holds = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    holds |= segment.p_type == PT_LOAD && search.inside >= begin && search.inside < begin + segment.p_memsz;
  }
  if (!holds) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE && search.found.empty())
      // The loader gives addresses as integers. NOLINTNEXTLINE(performance-no-int-to-ptr)
      search.found = id_in_notes(reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr),
                                 segment.p_memsz);
  }
  return 1;
}

}  // namespace

const std::string& build_id() {
  static const std::string id = [] {
    Search search{reinterpret_cast<uintptr_t>(&visit), {}};
    ::dl_iterate_phdr(visit, &search);
    OPENTRN_CHECK(!search.found.empty(), "this was linked without a build id (-Wl,--build-id)");
    return search.found;
  }();
  return id;
}

}  // namespace opentrn
