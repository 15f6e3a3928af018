// `geminga doctor`: checks a data folder offline and names every damaged place. Changes nothing.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/folder_lock.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/standalone_logs.h"
#include "ledger/log_check.h"
#include "metadata/rocksdb_store.h"

namespace geminga {

namespace {

// Prints what was found in one part; gives the number of problems.
int report(const std::string& part, const std::vector<std::string>& problems,
           const std::string& summary) {
  std::printf("%-10s %s: %s\n", part.c_str(), problems.empty() ? "sound" : "DAMAGED",
              summary.c_str());
  for (const std::string& problem : problems) std::printf("  %s\n", problem.c_str());
  return static_cast<int>(problems.size());
}

// `groups` gets what is stored of isolation groups.
int check_metadata(const std::string& folder, std::map<std::string, StoredLogGroup>& groups) {
  auto found = check_rocksdb_store(folder, kIsolationGroupsPath);
  if (!found) return report("metadata", {found.status().message()}, "cannot be read");
  for (const auto& [path, text] : found->kept) {
    auto group = parse_stored_group(path, text);
    if (group) {
      groups[path.substr(path.rfind('/') + 1)] = std::move(*group);
    } else {
      found->problems.push_back(group.status().message());
    }
  }
  return report("metadata", found->problems, std::to_string(found->keys) + " keys");
}

// The logs of a data folder, "log-0" and so on.
std::vector<std::string> log_folders(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("log-") && entry.is_directory(error)) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// `log_count` becomes at least what the log's segments say.
int check_one_log(const std::string& path, const std::string& name, std::uint32_t& log_count) {
  auto found = check_log(path);
  if (!found) return report(name, {found.status().message()}, "cannot be read");
  log_count = std::max(log_count, found->log_count);
  std::vector<std::string> problems;
  for (const LogDamage& damage : found->damage) {
    problems.push_back(damage.file + " at offset " + std::to_string(damage.offset) + ": " +
                       damage.what);
  }
  if (!found->opens) problems.push_back("a broker refuses it: " + found->refusal);
  const int count =
      report(name, problems,
             std::to_string(found->segments) + " segments, " + std::to_string(found->ledgers) +
                 " ledgers, " + std::to_string(found->entries) + " entries");
  for (const std::string& note : found->notes)
    std::printf("  (the next start repairs: %s)\n", note.c_str());
  return count;
}

// All logs of a folder, `shown` before their names; `count` of them must be there, or as many as
// they say themselves.
int check_logs(const std::string& folder, const std::string& shown, std::uint32_t count) {
  int problems = 0;
  for (const std::string& log : log_folders(folder))
    problems += check_one_log(folder + "/" + log, shown + log, count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = "log-" + std::to_string(i);
    std::error_code error;
    if (!std::filesystem::is_directory(folder + "/" + name, error))
      problems += report(shown + name, {folder + "/" + name + " is missing"}, "cannot be read");
  }
  return problems;
}

}  // namespace

int doctor_main(int argc, char** argv) {
  CLI::App app(
      "Checks a data folder that no process uses: every record of every log segment and every "
      "metadata key.",
      argv[0]);
  std::string folder = "./data";
  app.add_option("--data-dir", folder, "the folder to check")->capture_default_str();
  app.footer("Exit codes: 0 sound, 6 damage found, 4 the folder is in use, 5 it cannot be read.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      std::fputs(app.help().c_str(), stdout);
      return kExitOk;
    }
    std::fprintf(stderr, "%s\n`geminga doctor --help` lists the options\n", e.what());
    return kExitUsage;
  }
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    std::fprintf(stderr, "geminga doctor: %s is no folder that can be read\n", folder.c_str());
    return kExitDataFolder;
  }
  auto lock = FolderLock::acquire(folder);
  if (!lock) {
    std::fprintf(stderr, "geminga doctor: %s\n", lock.status().message().c_str());
    return lock.is(ErrorCode::Conflict) ? kExitLocked : kExitDataFolder;
  }
  std::map<std::string, StoredLogGroup> groups;
  int problems = check_metadata(folder + "/metadata", groups);
  problems += check_logs(folder, "", 0);
  for (const auto& [name, group] : groups) {
    const std::string path = group.path(folder, name);
    // Taking the lock would make a folder that is gone.
    std::optional<Result<FolderLock>> volume;
    if (std::filesystem::is_directory(path, error)) volume.emplace(FolderLock::acquire(path));
    if (volume && !*volume) {
      std::fprintf(stderr, "geminga doctor: %s\n", volume->status().message().c_str());
      return volume->is(ErrorCode::Conflict) ? kExitLocked : kExitDataFolder;
    }
    problems += check_logs(path, path + "/", group.logs);
  }
  if (problems == 0) {
    std::printf("%s is sound\n", folder.c_str());
    return kExitOk;
  }
  std::printf(
      "%s: %d problems; restore the folder from a backup, or ask before changing anything\n",
      folder.c_str(), problems);
  return kExitCorrupt;
}

}  // namespace geminga
