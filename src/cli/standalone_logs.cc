#include "cli/standalone_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <filesystem>
#include <map>

#include "ledger/log_file.h"

namespace geminga {

namespace json = boost::json;

namespace {

constexpr char kLogCountPath[] = "/geminga/logs";
constexpr unsigned kMostLogs = 1024;
// Each group has the ids of its ledgers for itself: number << 40 and up.
constexpr int kLedgerIdBits = 40;

std::string log_folder(const std::string& folder, unsigned index) {
  return folder + "/log-" + std::to_string(index);
}

// The folders are made before their number is stored: from then on each must be there.
Status make_log_folders(const std::string& folder, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    std::error_code error;
    std::filesystem::create_directories(log_folder(folder, i), error);
    if (error) {
      return Status::Io("cannot make the folder " + log_folder(folder, i) + ": " + error.message());
    }
  }
  GM_ASSIGN_OR_RETURN(const auto opened, open_log_folder(folder, false, true));
  return opened->sync();
}

Status check_log_folders(const std::string& folder, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    std::error_code error;
    if (std::filesystem::is_directory(log_folder(folder, i), error)) continue;
    return Status::Corruption("the folder " + log_folder(folder, i) +
                              " is missing, and with it all messages of its topics; put it back");
  }
  return Status::ok();
}

Task<Status> store_new(MetadataStore& metadata, std::string path, std::string value) {
  MetadataPut options;
  options.expected_version = -1;
  co_return (co_await metadata.put(std::move(path), std::move(value), options)).status();
}

// How many logs everybody has.
Task<Result<unsigned>> common_log_count(MetadataStore& metadata, std::string data_dir,
                                        unsigned wanted) {
  auto found = co_await metadata.get(kLogCountPath);
  if (!found) co_return found.status();
  if (found->has_value()) {
    const std::string& text = (*found)->value;
    unsigned count = 0;
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, count).ptr != end || count == 0 || count > kMostLogs) {
      co_return Status::Corruption(std::string("metadata key ") + kLogCountPath + " holds '" +
                                   text + "' where a number of logs must be");
    }
    GM_CO_RETURN_IF_ERROR(check_log_folders(data_dir, count));
    co_return count;
  }
  GM_CO_RETURN_IF_ERROR(make_log_folders(data_dir, wanted));
  GM_CO_RETURN_IF_ERROR(co_await store_new(metadata, kLogCountPath, std::to_string(wanted)));
  co_return wanted;
}

// Plans all; lives in the frame of plan_logs().
class Planner {
 public:
  Planner(MetadataStore& metadata, std::string data_dir, unsigned shard_count)
      : metadata_(metadata), data_dir_(std::move(data_dir)), shard_count_(shard_count) {}

  Task<Result<NodeLogs>> run(std::vector<IsolationGroup> groups) {
    GM_CO_ASSIGN_OR_RETURN(everybody_.shards, shared_shards(groups, shard_count_));
    GM_CO_ASSIGN_OR_RETURN(const unsigned common,
                           co_await common_log_count(metadata_, data_dir_, shard_count_));
    GM_CO_RETURN_IF_ERROR(co_await read_stored());
    add(everybody_, data_dir_, 0, common);
    for (const IsolationGroup& group : groups) GM_CO_RETURN_IF_ERROR(co_await add_group(group));
    for (const auto& [name, group] : stored_) {
      IsolationGroup left;
      left.name = name;
      const std::string folder = group.path(data_dir_, name);
      GM_CO_RETURN_IF_ERROR(check_log_folders(folder, group.logs));
      add(left, folder, group.number, group.logs);
    }
    co_return std::move(plan_);
  }

 private:
  Task<Status> read_stored() {
    const auto names = co_await metadata_.children(kIsolationGroupsPath);
    if (!names) co_return names.status();
    for (const std::string& name : *names) {
      const std::string path = std::string(kIsolationGroupsPath) + "/" + name;
      const auto found = co_await metadata_.get(path);
      if (!found) co_return found.status();
      if (!found->has_value()) continue;
      GM_CO_ASSIGN_OR_RETURN(stored_[name], parse_stored_group(path, (*found)->value));
      last_number_ = std::max(last_number_, stored_[name].number);
    }
    co_return Status::ok();
  }

  Task<Status> add_group(IsolationGroup settings) {
    const std::string path = std::string(kIsolationGroupsPath) + "/" + settings.name;
    const auto at = stored_.find(settings.name);
    if (at != stored_.end()) {
      StoredLogGroup group = std::move(at->second);
      stored_.erase(at);
      // A volume that was mounted elsewhere: its logs must be there.
      const bool moved = !settings.volume.empty() && settings.volume != group.folder;
      if (moved) group.folder = settings.volume;
      const std::string folder = group.path(data_dir_, settings.name);
      GM_CO_RETURN_IF_ERROR(check_log_folders(folder, group.logs));
      if (moved) GM_CO_RETURN_IF_ERROR((co_await metadata_.put(path, group.text(), {})).status());
      add(settings, folder, group.number, group.logs);
      co_return Status::ok();
    }
    StoredLogGroup group;
    group.number = ++last_number_;
    group.logs = static_cast<unsigned>(std::max<std::size_t>(settings.shards.size(), 1));
    group.folder = settings.volume;
    const std::string folder = group.path(data_dir_, settings.name);
    std::error_code error;
    if (std::filesystem::exists(log_folder(folder, 0), error)) {
      co_return Status::InvalidArgument(
          fmt::format("isolation group '{}' is new, but {} holds the logs of another; give it a "
                      "volume of its own",
                      settings.name, folder));
    }
    GM_CO_RETURN_IF_ERROR(make_log_folders(folder, group.logs));
    GM_CO_RETURN_IF_ERROR(co_await store_new(metadata_, path, group.text()));
    add(settings, folder, group.number, group.logs);
    co_return Status::ok();
  }

  void add(IsolationGroup settings, const std::string& folder, std::int64_t number,
           unsigned count) {
    if (settings.shards.empty()) settings.shards = everybody_.shards;
    NodeLogGroup group;
    group.first = static_cast<unsigned>(plan_.logs.size());
    group.count = count;
    group.folder = folder;
    for (unsigned i = 0; i < count; ++i) {
      plan_.logs.push_back({log_folder(folder, i), settings.name, i, count, number << kLedgerIdBits,
                            settings.shards[i % settings.shards.size()]});
    }
    group.settings = std::move(settings);
    plan_.groups.push_back(std::move(group));
  }

  MetadataStore& metadata_;
  const std::string data_dir_;
  const unsigned shard_count_;
  IsolationGroup everybody_;
  std::map<std::string, StoredLogGroup> stored_;  // that are not planned yet
  std::int64_t last_number_ = 0;
  NodeLogs plan_;
};

}  // namespace

std::string StoredLogGroup::text() const {
  return json::serialize(json::object{{"number", number}, {"logs", logs}, {"folder", folder}});
}

Result<StoredLogGroup> parse_stored_group(const std::string& path, const std::string& text) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  const auto member = [&](const char* name) -> const json::value* {
    return !error && value.is_object() ? value.get_object().if_contains(name) : nullptr;
  };
  const json::value* number = member("number");
  const json::value* logs = member("logs");
  const json::value* folder = member("folder");
  const auto within = [](const json::value* v, std::int64_t most) {
    return v != nullptr && v->is_int64() && v->get_int64() > 0 && v->get_int64() <= most;
  };
  if (!within(number, 1 << 20) || !within(logs, kMostLogs) || folder == nullptr ||
      !folder->is_string()) {
    return Status::Corruption("metadata key " + path + " holds '" + text +
                              "' where an isolation group must be");
  }
  return StoredLogGroup{number->get_int64(), static_cast<unsigned>(logs->get_int64()),
                        std::string(folder->get_string())};
}

Task<Result<NodeLogs>> plan_logs(MetadataStore& metadata, std::string data_dir,
                                 unsigned shard_count, std::vector<IsolationGroup> groups) {
  Planner planner(metadata, std::move(data_dir), shard_count);
  co_return co_await planner.run(std::move(groups));
}

}  // namespace geminga
