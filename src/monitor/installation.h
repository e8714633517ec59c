// Files under a prefix of the user's: `opentrn neuron-tools install`.
//
// Nothing is overwritten that this did not install: a manifest under PREFIX/share/opentrn has the digest of
// each file. What is removed is still as it was. Input faults are "tools.install".
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace opentrn::monitor {

struct InstalledFile {
  std::string name;     // below the prefix: in bin, lib or include
  std::string content;  // of a link, where it leads
  bool is_link = false;
};

// The paths that were written, in their order. Input fault where a file of a name is there that this did not
// install, or that is changed.
std::vector<std::filesystem::path> install(const std::filesystem::path& prefix,
                                           std::span<const InstalledFile> files);

struct Removed {
  std::vector<std::filesystem::path> removed, left;  // left: changed since
};
// Input fault where nothing is installed.
Removed uninstall(const std::filesystem::path& prefix);

}  // namespace opentrn::monitor
