#include "monitor/installation.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "base/new_file.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace opentrn::monitor {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLabel = "tools.install";
constexpr std::string_view kLink = "link to ";  // in the manifest, in a digest's place
constexpr const char* kManifest = "share/opentrn/neuron-tools.json";
constexpr uintmax_t kManifestBytesMax = uintmax_t{1} << 20;

using Digests = std::map<std::string, std::string>;  // by name

Fault install_fault(const std::string& message, const char* hint = "") {
  return Fault(FaultKind::kInput, kLabel, message, hint);
}

// What the system says of a path.
void expect_done(const std::error_code& error, const fs::path& path) {
  if (error) throw install_fault(fmt::format("{}: {}", printable(path.string()), error.message()));
}

std::string digest_of(const InstalledFile& file) {
  return file.is_link ? fmt::format("{}{}", kLink, file.content) : sha256_of(file.content);
}

// True too where there is no such file.
bool is_ours(const fs::path& path, const std::string* digest) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return true;
  if (!digest) return false;
  if (fs::is_symlink(status))
    return *digest == fmt::format("{}{}", kLink, fs::read_symlink(path, error).string());
  return fs::is_regular_file(status) && *digest == sha256_of_file(path, kLabel);
}

// Names that lead out of the prefix are none.
bool is_name(const std::string& name) {
  const fs::path path(name);
  const std::vector<fs::path> parts(path.begin(), path.end());
  constexpr std::string_view kFolders[] = {"bin", "lib", "include"};
  return parts.size() >= 2 && std::ranges::find(kFolders, parts[0].string()) != std::end(kFolders) &&
         std::ranges::find(parts, fs::path("..")) == parts.end();
}

std::optional<Digests> read_manifest(const fs::path& path) {
  std::error_code error;
  if (fs::file_size(path, error) > kManifestBytesMax || error) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_object()) return std::nullopt;
  Digests digests;
  for (const auto& [name, digest] : json["files"].items()) {
    if (!is_name(name) || !digest.is_string()) return std::nullopt;
    digests[name] = digest.get<std::string>();
  }
  return digests;
}

// The files of an earlier install; none without one.
Digests manifest_of(const fs::path& prefix) {
  const fs::path path = prefix / kManifest;
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  if (auto digests = read_manifest(path)) return std::move(*digests);
  throw install_fault(fmt::format("{} is damaged", printable(path.string())),
                      "remove it and the scripts in bin by hand");
}

void write_installed(const fs::path& path, const std::string& content, unsigned permissions) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  expect_done(error, path.parent_path());
  NewFile file(path.string(), kLabel, "", permissions);
  file.put(content.data(), content.size());
  file.finish();
}

}  // namespace

std::vector<fs::path> install(const fs::path& prefix, std::span<const InstalledFile> files) {
  const Digests known = manifest_of(prefix);
  for (const InstalledFile& file : files) {
    const auto found = known.find(file.name);
    if (!is_ours(prefix / file.name, found == known.end() ? nullptr : &found->second))
      throw install_fault(fmt::format("{} is there, and is not of `opentrn neuron-tools install`",
                                      printable((prefix / file.name).string())),
                          "choose another --prefix; AWS's own tools stay as they are");
  }
  nlohmann::json digests = nlohmann::json::object();
  std::vector<fs::path> written;
  for (const InstalledFile& file : files) {
    const fs::path path = prefix / file.name;
    std::error_code error;
    if (!file.is_link)
      write_installed(path, file.content, file.name.starts_with("bin/") ? 0777 : 0666);
    else if (!fs::is_symlink(path, error))
      fs::create_symlink(file.content, path, error);
    if (file.is_link) expect_done(error, path);
    digests[file.name] = digest_of(file);
    written.push_back(path);
  }
  write_installed(prefix / kManifest, nlohmann::json{{"files", digests}}.dump(1) + "\n", 0666);
  return written;
}

Removed uninstall(const fs::path& prefix) {
  const Digests known = manifest_of(prefix);
  if (known.empty())
    throw install_fault(
        fmt::format("{} has no tools of `opentrn neuron-tools install`", printable(prefix.string())),
        "name its --prefix");
  Removed made;
  std::set<fs::path> folders;
  const auto note_folders = [&](const fs::path& name) {
    for (fs::path folder = name.parent_path(); !folder.empty(); folder = folder.parent_path())
      folders.insert(folder);
  };
  for (const auto& [name, digest] : known) {
    const fs::path path = prefix / name;
    note_folders(name);
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path, error))) continue;
    if (!is_ours(path, &digest)) {
      made.left.push_back(path);
      continue;
    }
    fs::remove(path, error);
    expect_done(error, path);
    made.removed.push_back(path);
  }
  std::error_code error;
  fs::remove(prefix / kManifest, error);
  expect_done(error, prefix / kManifest);
  note_folders(kManifest);
  // Inner ones first; those that hold somebody else's files stay.
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    fs::remove(prefix / *folder, error);
  return made;
}

}  // namespace opentrn::monitor
